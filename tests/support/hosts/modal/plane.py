"""The control plane: apps, secrets and sandboxes, in both versions that libraries ask for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped, unused-ignore]
from grpclib import Status  # type: ignore[import-not-found, unused-ignore]
from modal_proto import api_pb2 as api  # type: ignore[import-not-found, unused-ignore]

from tests.support.hosts.modal.building import Building
from tests.support.hosts.modal.hub import RESULT, Hub, Image, Sandbox, new_id
from tests.support.hosts.modal.rpc import claims, fail, filled, token

TOKEN = ("ak-loopback", "as-loopback")
PAGE = 50  # sandboxes in one answer


class ControlPlane(Building):
    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def check(self, name: str, asked: Any, said: Any) -> None:
        if (said.get("x-modal-token-id"), said.get("x-modal-token-secret")) != TOKEN:
            fail(Status.UNAUTHENTICATED, "Token ID or secret is invalid")
        if name.startswith("Sandbox") and name.endswith("V2"):
            good = said.get("x-modal-auth-token", "")
            if not good or claims(self.hub.key, good) is None:
                fail(Status.UNAUTHENTICATED, "auth token missing or expired")

    async def ClientHello(self, asked: Any) -> Any:
        return api.ClientHelloResponse()

    async def AuthTokenGet(self, asked: Any) -> Any:
        return api.AuthTokenGetResponse(token=token(self.hub.key, sub="loopback", exp=time.time() + 1200))

    async def AppGetOrCreate(self, asked: Any) -> Any:
        wanted = (asked.app_name, asked.environment_name)
        for app_id, known in self.hub.apps.items():
            if known == wanted:
                return api.AppGetOrCreateResponse(app_id=app_id)
        if asked.object_creation_type != api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
            fail(Status.NOT_FOUND, f"App '{asked.app_name}' not found")
        app_id = new_id("ap")
        self.hub.apps[app_id] = wanted
        return api.AppGetOrCreateResponse(app_id=app_id)

    async def SecretGetOrCreate(self, asked: Any) -> Any:
        secret_id = new_id("st")
        self.hub.secrets[secret_id] = dict(asked.env_dict)
        return api.SecretGetOrCreateResponse(secret_id=secret_id)

    async def SandboxCreateV2(self, asked: Any) -> Any:
        given = self.hub.variables(asked.definition.secret_ids, getattr(asked, "secret_sources", ()))
        given |= dict(asked.ephemeral_secrets.contents)
        one = await self.hub.create(asked.app_id, asked.definition, asked.tags, given, v2=True)
        return filled(
            api.SandboxCreateV2Response,
            sandbox_id=one.id,
            task_id=one.task_id,
            metadata=_about(one),
            command_router_access=self.hub.access(one),
        )

    async def SandboxCreate(self, asked: Any) -> Any:
        given = self.hub.variables(asked.definition.secret_ids)
        one = await self.hub.create(asked.app_id, asked.definition, asked.tags, given, v2=False)
        return filled(api.SandboxCreateResponse, sandbox_id=one.id, metadata=_about(one))

    async def SandboxWait(self, asked: Any) -> Any:
        one = self.hub.sandbox(asked.sandbox_id)
        await _within(one, asked.timeout)
        return filled(api.SandboxWaitResponse, result=one.result, metadata=_about(one))

    async def SandboxGetTaskId(self, asked: Any) -> Any:
        one = self.hub.sandbox(asked.sandbox_id)
        return api.SandboxGetTaskIdResponse(task_id=one.task_id, task_result=one.result)

    async def SandboxGetCommandRouterAccess(self, asked: Any) -> Any:
        one = self.hub.tasks.get(asked.task_id) if asked.task_id else self.hub.sandbox(asked.sandbox_id)
        access = self.hub.access(one or fail(Status.NOT_FOUND, "task not found"))
        return api.SandboxGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt)

    async def TaskGetCommandRouterAccess(self, asked: Any) -> Any:
        access = self.hub.access(self.hub.tasks.get(asked.task_id) or fail(Status.NOT_FOUND, "task not found"))
        return api.TaskGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt)

    async def SandboxTerminate(self, asked: Any) -> Any:
        one = self.hub.sandbox(asked.sandbox_id)
        before = one.result
        if self.hub.fault("end_fails"):
            fail(Status.PERMISSION_DENIED, "the sandbox cannot be ended now")
        await self.hub.terminate(one)
        return api.SandboxTerminateResponse(existing_result=before)

    async def SandboxTagsSet(self, asked: Any) -> Any:
        self.hub.sandbox(asked.sandbox_id).tags = {one.tag_name: one.tag_value for one in asked.tags}
        return Empty()

    async def SandboxTagsGet(self, asked: Any) -> Any:
        return api.SandboxTagsGetResponse(tags=_tags(self.hub.sandbox(asked.sandbox_id)))

    async def SandboxList(self, asked: Any) -> Any:
        wanted = {one.tag_name: one.tag_value for one in asked.tags}.items()
        last = time.time() - self.hub.fault("list_lag")
        if asked.before_timestamp:
            last = min(last, asked.before_timestamp - 1e-6)
        rows = [
            filled(
                api.SandboxInfo,
                id=one.id,
                created_at=one.created_at,
                app_id=one.app_id,
                name=one.name,
                image_id=one.definition.image_id,
                task_info=api.TaskInfo(id=one.task_id, result=one.result, started_at=one.created_at),
                tags=_tags(one),
                metadata=_about(one),
            )
            for one in sorted(self.hub.sandboxes.values(), key=lambda one: -one.created_at)
            if (not asked.app_id or one.app_id == asked.app_id)
            and (asked.include_finished or one.result is None)
            and one.created_at <= last
            and wanted <= one.tags.items()
        ]
        return api.SandboxListResponse(sandboxes=rows[:PAGE])

    async def SandboxGetFromName(self, asked: Any) -> Any:
        one = self.hub.named(asked.app_name, asked.sandbox_name, asked.include_terminated)
        if one is None:
            fail(Status.NOT_FOUND, f"Sandbox with name {asked.sandbox_name} not found")
        return filled(api.SandboxGetFromNameResponse, sandbox_id=one.id, metadata=_about(one))

    async def SandboxGetExitSnapshot(self, asked: Any) -> Any:
        one = self.hub.sandbox(asked.sandbox_id)
        if not one.wants_exit_snapshot:
            fail(Status.INVALID_ARGUMENT, "exit snapshot is not enabled for this sandbox")
        await _within(one, asked.timeout)
        answer = api.SandboxGetExitSnapshotResponse
        if one.exit_image is None and one.result is not None:
            return answer(error=answer.Error(error_code=answer.ERROR_CODE_TIMEOUT, message="too late"))
        if one.exit_image is None:
            return answer(pending=answer.Pending())
        return answer(success=answer.Success(image_id=one.exit_image))

    async def SandboxSnapshotFs(self, asked: Any) -> Any:
        one = self.hub.sandbox(asked.sandbox_id)
        layers = await one.box.snapshot(new_id("la", 8))
        image_id = self.hub.add_image(Image(layers, one.box.env, one.cwd), "snapshot")
        result = RESULT(status=RESULT.GENERIC_STATUS_SUCCESS)
        return api.SandboxSnapshotFsResponse(image_id=image_id, result=result)

    SandboxWaitV2, SandboxGetTaskIdV2, SandboxTerminateV2 = SandboxWait, SandboxGetTaskId, SandboxTerminate
    SandboxTagsSetV2, SandboxTagsGetV2, SandboxListV2 = SandboxTagsSet, SandboxTagsGet, SandboxList
    SandboxGetFromNameV2, SandboxGetExitSnapshotV2 = SandboxGetFromName, SandboxGetExitSnapshot


async def _within(one: Sandbox, seconds: float) -> None:
    """Wait for its end, not longer than that."""
    if one.result is None and seconds > 0:
        try:
            await asyncio.wait_for(one.done.wait(), seconds)
        except TimeoutError:
            pass


def _about(one: Sandbox) -> Any:
    return filled(api.SandboxHandleMetadata, app_id=one.app_id, result=one.result)


def _tags(one: Sandbox) -> list[Any]:
    return [api.SandboxTag(tag_name=key, tag_value=value) for key, value in one.tags.items()]
