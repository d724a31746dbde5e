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

    def check(self, name: str, asked: Any, said: Any) -> None:
        known = claims(self.hub.key, (said.get("authorization") or "").removeprefix("Bearer "))
        task = asked.start.task_id if name == "TaskExecStdinWriteStream" else asked.task_id
        if not known or known["task_id"] != task:
            fail(Status.UNAUTHENTICATED, "command router token missing, expired or for another task")

    def _live(self, asked: Any) -> Sandbox:
        one = self.hub.tasks.get(asked.task_id)
        if one is None or one.result is not None or one.box.process.code is not None:
            fail(Status.NOT_FOUND, "Sandbox has already shut down")
        one.active = time.monotonic()
        return one

    def _process(self, asked: Any) -> Process:
        one = self.hub.tasks.get(asked.task_id) or fail(Status.NOT_FOUND, "no such task")
        return one.execs.get(asked.exec_id) or fail(Status.NOT_FOUND, f"no such exec {asked.exec_id}")

    async def TaskExecStart(self, asked: Any) -> Any:
        one = self._live(asked)
        if asked.exec_id not in one.execs:  # else it is asked for a second time
            sources = getattr(asked, "secret_sources", ())
            env = {**dict(asked.env), **self.hub.variables(asked.secret_ids, sources)}
            size = None
            if asked.HasField("pty_info"):
                size = (asked.pty_info.winsz_rows, asked.pty_info.winsz_cols)
                env["TERM"] = asked.pty_info.env_term or "xterm-256color"
            argv = one.box.enter(list(asked.command_args), env, asked.workdir or one.cwd)
            process = one.execs[asked.exec_id] = Process(argv, size)
            if asked.timeout_secs:
                asyncio.get_running_loop().call_later(asked.timeout_secs, process.kill)
        return router.TaskExecStartResponse()

    async def TaskExecStdioRead(self, asked: Any) -> AsyncIterator[Any]:
        is_error = asked.file_descriptor == router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR
        async for data in self._process(asked).read(2 if is_error else 1, asked.offset):
            yield router.TaskExecStdioReadResponse(data=data)

    async def TaskExecStdinWrite(self, asked: Any) -> Any:
        await self._process(asked).write(asked.offset, asked.data, asked.eof)
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

    async def TaskExecStdinStatus(self, asked: Any) -> Any:
        process = self._process(asked)
        return router.TaskExecStdinStatusResponse(num_bytes_written=process.taken, closed=process.input_closed)

    async def TaskExecPoll(self, asked: Any) -> Any:
        code = self._process(asked).code
        return router.TaskExecPollResponse() if code is None else _exit(router.TaskExecPollResponse, code)

    async def TaskExecWait(self, asked: Any) -> Any:
        return _exit(router.TaskExecWaitResponse, await self._process(asked).wait())

    async def TaskSnapshotFilesystem(self, asked: Any) -> Any:
        one = self._live(asked)
        self.hub.snapshots += 1
        self.hub.tell()
        await asyncio.sleep(self.hub.fault("snapshot_delay"))
        layers = await one.box.snapshot(new_id("la", 8))
        kept = asked.ttl_seconds if "ttl_seconds" in asked.DESCRIPTOR.fields_by_name else None
        image_id = self.hub.add_image(Image(layers, one.box.env, one.cwd), "snapshot", kept)
        return router.TaskSnapshotFilesystemResponse(image_id=image_id)


def _exit(kind: Any, code: int) -> Any:
    return kind(code=code) if code >= 0 else kind(signal=-code)
