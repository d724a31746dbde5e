"""The command router: commands in sandboxes, their streams, and snapshots of files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from grpclib import Status  # type: ignore[import-not-found, unused-ignore]
from modal_proto import task_command_router_pb2 as router  # type: ignore[import-not-found, unused-ignore]

from tests.support.hosts.modal.hub import Hub, Image, Sandbox, new_id
from tests.support.hosts.modal.process import Process
from tests.support.hosts.modal.rpc import claims, fail


class CommandRouter:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def check(self, name: str, request: Any, metadata: Any) -> None:
        token_claims = claims(self.hub.key, (metadata.get("authorization") or "").removeprefix("Bearer "))
        task = request.start.task_id if name == "TaskExecStdinWriteStream" else request.task_id
        if not token_claims or token_claims["task_id"] != task:
            fail(Status.UNAUTHENTICATED, "command router token missing, expired or for another task")

    def _live(self, request: Any) -> Sandbox:
        sandbox = self.hub.tasks.get(request.task_id)
        if sandbox is None or sandbox.result is not None or sandbox.box.process.code is not None:
            fail(Status.NOT_FOUND, "Sandbox has already shut down")
        sandbox.active = time.monotonic()
        return sandbox

    def _process(self, request: Any) -> Process:
        sandbox = self.hub.tasks.get(request.task_id) or fail(Status.NOT_FOUND, "no such task")
        return sandbox.execs.get(request.exec_id) or fail(Status.NOT_FOUND, f"no such exec {request.exec_id}")

    async def TaskExecStart(self, request: Any) -> Any:
        sandbox = self._live(request)
        if request.exec_id not in sandbox.execs:  # otherwise the request is a retry
            sources = getattr(request, "secret_sources", ())
            env = {**dict(request.env), **self.hub.variables(request.secret_ids, sources)}
            size = None
            if request.HasField("pty_info"):
                size = (request.pty_info.winsz_rows, request.pty_info.winsz_cols)
                env["TERM"] = request.pty_info.env_term or "xterm-256color"
            argv = sandbox.box.enter(list(request.command_args), env, request.workdir or sandbox.cwd)
            process = sandbox.execs[request.exec_id] = Process(argv, size)
            if request.timeout_secs:
                asyncio.get_running_loop().call_later(request.timeout_secs, process.kill)
        return router.TaskExecStartResponse()

    async def TaskExecStdioRead(self, request: Any) -> AsyncIterator[Any]:
        is_error = request.file_descriptor == router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR
        async for data in self._process(request).read(2 if is_error else 1, request.offset):
            yield router.TaskExecStdioReadResponse(data=data)

    async def TaskExecStdinWrite(self, request: Any) -> Any:
        await self._process(request).write(request.offset, request.data, request.eof)
        return router.TaskExecStdinWriteResponse()

    async def TaskExecStdinWriteStream(self, first: Any, stream: Any) -> Any:
        process, offset = self._process(first.start), first.start.offset
        async for message in stream:
            if message.WhichOneof(message.DESCRIPTOR.oneofs[0].name) == "end":
                await process.write(offset, b"", True)
                break
            await process.write(offset, message.data, False)
            offset += len(message.data)
        return router.TaskExecStdinWriteStreamResponse()

    async def TaskExecStdinStatus(self, request: Any) -> Any:
        process = self._process(request)
        return router.TaskExecStdinStatusResponse(num_bytes_written=process.taken, closed=process.input_closed)

    async def TaskExecPoll(self, request: Any) -> Any:
        code = self._process(request).code
        return router.TaskExecPollResponse() if code is None else _exit(router.TaskExecPollResponse, code)

    async def TaskExecWait(self, request: Any) -> Any:
        return _exit(router.TaskExecWaitResponse, await self._process(request).wait())

    async def TaskSnapshotFilesystem(self, request: Any) -> Any:
        sandbox = self._live(request)
        self.hub.snapshots += 1
        self.hub.tell()
        await asyncio.sleep(self.hub.fault("snapshot_delay"))
        layers = await sandbox.box.snapshot(new_id("la", 8))
        ttl = request.ttl_seconds if "ttl_seconds" in request.DESCRIPTOR.fields_by_name else None
        image_id = self.hub.add_image(Image(layers, sandbox.box.env, sandbox.cwd), "snapshot", ttl)
        return router.TaskSnapshotFilesystemResponse(image_id=image_id)


def _exit(kind: Any, code: int) -> Any:
    return kind(code=code) if code >= 0 else kind(signal=-code)
