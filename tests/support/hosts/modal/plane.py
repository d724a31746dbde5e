"""The control plane: apps, secrets and sandboxes, in both versions of the protocol."""

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
PAGE = 50  # sandboxes per page of an answer


class ControlPlane(Building):
    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def check(self, name: str, request: Any, metadata: Any) -> None:
        if (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")) != TOKEN:
            fail(Status.UNAUTHENTICATED, "Token ID or secret is invalid")
        if name.startswith("Sandbox") and name.endswith("V2"):
            auth_token = metadata.get("x-modal-auth-token", "")
            if not auth_token or claims(self.hub.key, auth_token) is None:
                fail(Status.UNAUTHENTICATED, "auth token missing or expired")

    async def ClientHello(self, request: Any) -> Any:
        return api.ClientHelloResponse()

    async def AuthTokenGet(self, request: Any) -> Any:
        return api.AuthTokenGetResponse(token=token(self.hub.key, sub="loopback", exp=time.time() + 1200))

    async def AppGetOrCreate(self, request: Any) -> Any:
        key = (request.app_name, request.environment_name)
        for app_id, known in self.hub.apps.items():
            if known == key:
                return api.AppGetOrCreateResponse(app_id=app_id)
        if request.object_creation_type != api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
            fail(Status.NOT_FOUND, f"App '{request.app_name}' not found")
        app_id = new_id("ap")
        self.hub.apps[app_id] = key
        return api.AppGetOrCreateResponse(app_id=app_id)

    async def SecretGetOrCreate(self, request: Any) -> Any:
        secret_id = new_id("st")
        self.hub.secrets[secret_id] = dict(request.env_dict)
        return api.SecretGetOrCreateResponse(secret_id=secret_id)

    async def SandboxCreateV2(self, request: Any) -> Any:
        variables = self.hub.variables(request.definition.secret_ids, getattr(request, "secret_sources", ()))
        variables |= dict(request.ephemeral_secrets.contents)
        sandbox = await self.hub.create(request.app_id, request.definition, request.tags, variables, v2=True)
        return filled(
            api.SandboxCreateV2Response,
            sandbox_id=sandbox.id,
            task_id=sandbox.task_id,
            metadata=_about(sandbox),
            command_router_access=self.hub.access(sandbox),
        )

    async def SandboxCreate(self, request: Any) -> Any:
        variables = self.hub.variables(request.definition.secret_ids)
        sandbox = await self.hub.create(request.app_id, request.definition, request.tags, variables, v2=False)
        return filled(api.SandboxCreateResponse, sandbox_id=sandbox.id, metadata=_about(sandbox))

    async def SandboxWait(self, request: Any) -> Any:
        sandbox = self.hub.sandbox(request.sandbox_id)
        await _within(sandbox, request.timeout)
        return filled(api.SandboxWaitResponse, result=sandbox.result, metadata=_about(sandbox))

    async def SandboxGetTaskId(self, request: Any) -> Any:
        sandbox = self.hub.sandbox(request.sandbox_id)
        return api.SandboxGetTaskIdResponse(task_id=sandbox.task_id, task_result=sandbox.result)

    async def SandboxGetCommandRouterAccess(self, request: Any) -> Any:
        sandbox = self.hub.tasks.get(request.task_id) if request.task_id else self.hub.sandbox(request.sandbox_id)
        access = self.hub.access(sandbox or fail(Status.NOT_FOUND, "task not found"))
        return api.SandboxGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt)

    async def TaskGetCommandRouterAccess(self, request: Any) -> Any:
        access = self.hub.access(self.hub.tasks.get(request.task_id) or fail(Status.NOT_FOUND, "task not found"))
        return api.TaskGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt)

    async def SandboxTerminate(self, request: Any) -> Any:
        sandbox = self.hub.sandbox(request.sandbox_id)
        before = sandbox.result
        if self.hub.fault("end_fails"):
            fail(Status.PERMISSION_DENIED, "the sandbox cannot be ended now")
        await self.hub.terminate(sandbox)
        return api.SandboxTerminateResponse(existing_result=before)

    async def SandboxTagsSet(self, request: Any) -> Any:
        self.hub.sandbox(request.sandbox_id).tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        return Empty()

    async def SandboxTagsGet(self, request: Any) -> Any:
        return api.SandboxTagsGetResponse(tags=_tags(self.hub.sandbox(request.sandbox_id)))

    async def SandboxList(self, request: Any) -> Any:
        wanted_tags = {item.tag_name: item.tag_value for item in request.tags}.items()
        latest = time.time() - self.hub.fault("list_lag")
        if request.before_timestamp:
            latest = min(latest, request.before_timestamp - 1e-6)
        rows = [
            filled(
                api.SandboxInfo,
                id=item.id,
                created_at=item.created_at,
                app_id=item.app_id,
                name=item.name,
                image_id=item.definition.image_id,
                task_info=api.TaskInfo(id=item.task_id, result=item.result, started_at=item.created_at),
                tags=_tags(item),
                metadata=_about(item),
            )
            for item in sorted(self.hub.sandboxes.values(), key=lambda item: -item.created_at)
            if (not request.app_id or item.app_id == request.app_id)
            and (request.include_finished or item.result is None)
            and item.created_at <= latest
            and wanted_tags <= item.tags.items()
        ]
        return api.SandboxListResponse(sandboxes=rows[:PAGE])

    async def SandboxGetFromName(self, request: Any) -> Any:
        sandbox = self.hub.named(request.app_name, request.sandbox_name, request.include_terminated)
        if sandbox is None:
            fail(Status.NOT_FOUND, f"Sandbox with name {request.sandbox_name} not found")
        return filled(api.SandboxGetFromNameResponse, sandbox_id=sandbox.id, metadata=_about(sandbox))

    async def SandboxGetExitSnapshot(self, request: Any) -> Any:
        sandbox = self.hub.sandbox(request.sandbox_id)
        if not sandbox.wants_exit_snapshot:
            fail(Status.INVALID_ARGUMENT, "exit snapshot is not enabled for this sandbox")
        await _within(sandbox, request.timeout)
        answer = api.SandboxGetExitSnapshotResponse
        if sandbox.exit_image is None and sandbox.result is not None:
            return answer(error=answer.Error(error_code=answer.ERROR_CODE_TIMEOUT, message="too late"))
        if sandbox.exit_image is None:
            return answer(pending=answer.Pending())
        return answer(success=answer.Success(image_id=sandbox.exit_image))

    async def SandboxSnapshotFs(self, request: Any) -> Any:
        sandbox = self.hub.sandbox(request.sandbox_id)
        layers = await sandbox.box.snapshot(new_id("la", 8))
        image_id = self.hub.add_image(Image(layers, sandbox.box.env, sandbox.cwd), "snapshot")
        result = RESULT(status=RESULT.GENERIC_STATUS_SUCCESS)
        return api.SandboxSnapshotFsResponse(image_id=image_id, result=result)

    SandboxWaitV2, SandboxGetTaskIdV2, SandboxTerminateV2 = SandboxWait, SandboxGetTaskId, SandboxTerminate
    SandboxTagsSetV2, SandboxTagsGetV2, SandboxListV2 = SandboxTagsSet, SandboxTagsGet, SandboxList
    SandboxGetFromNameV2, SandboxGetExitSnapshotV2 = SandboxGetFromName, SandboxGetExitSnapshot


async def _within(sandbox: Sandbox, seconds: float) -> None:
    """Wait for the end of a sandbox, for at most `seconds`."""
    if sandbox.result is None and seconds > 0:
        try:
            await asyncio.wait_for(sandbox.done.wait(), seconds)
        except TimeoutError:
            pass


def _about(sandbox: Sandbox) -> Any:
    return filled(api.SandboxHandleMetadata, app_id=sandbox.app_id, result=sandbox.result)


def _tags(sandbox: Sandbox) -> list[Any]:
    return [api.SandboxTag(tag_name=key, tag_value=value) for key, value in sandbox.tags.items()]
