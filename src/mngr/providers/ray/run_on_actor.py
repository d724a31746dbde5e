"""Runs a command on a host's actor: sends input, and asks for output until the command has ended."""

from __future__ import annotations

import asyncio
import os

from ray.exceptions import (  # type: ignore[import-not-found, unused-ignore]
    ActorDiedError,
    ActorUnavailableError,
    RayActorError,
    RayError,
)

from mngr.providers.bridge.engine_interface import EngineError
from mngr.providers.ray import host_actor
from mngr.providers.ray.actor_command import CHUNK_SIZE
from mngr.providers.ray.actor_directory import ActorDirectory
from mngr.providers.ray.actor_messages import ActorAddress
from mngr.providers.ray.node_tasks import wait_with_timeout
from mngr.providers.ray.reachability import get_error_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from mngr.providers.bridge.messages import TerminalSpec
    from mngr.providers.ray.actor_command import ActorOutput

ANSWER_TIMEOUT = 10.0  # seconds; an actor must answer within this time
STREAM_QUEUE_SIZE = 4  # chunks of a stream that wait for their reader


class RayCommand:
    """A command on a host. Only one `poll_output` is in progress, for the streams whose reader keeps up."""

    def __init__(self, actors: ActorDirectory, host: ActorAddress) -> None:
        self._actors = actors
        self._host = host
        self._key = os.urandom(8).hex()
        self._output: dict[int, asyncio.Queue[bytes | EngineError | None]] = {
            stream: asyncio.Queue() for stream in (1, 2)
        }
        self._chunk_taken = asyncio.Event()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._polling: asyncio.Task[None] | None = None

    async def start(self, program: str, terminal: TerminalSpec | None) -> None:
        """Start the command. Raise EngineError if that fails."""
        if terminal:
            self._output[2].put_nowait(None)
        size = (terminal.rows, terminal.columns, terminal.term) if terminal else None
        answer = await self._call_actor("start_command", ANSWER_TIMEOUT + 5, self._key, program, size)
        self._polling = asyncio.ensure_future(self._poll_until_end(answer))

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK_SIZE):
            await self._send_input(data[start : start + CHUNK_SIZE], last=False)

    async def end_input(self) -> None:
        await self._send_input(b"", last=True)

    async def read(self, stream: int) -> AsyncIterator[bytes]:
        while (part := await self._output[stream].get()) is not None:
            if isinstance(part, EngineError):
                raise part
            self._chunk_taken.set()
            yield part

    async def wait(self) -> int:
        return await self._code

    async def resize(self, rows: int, columns: int) -> None:
        await self._call_actor("resize", ANSWER_TIMEOUT, self._key, rows, columns)

    async def kill(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        try:
            await self._call_actor("kill", ANSWER_TIMEOUT, self._key)
        except EngineError:
            pass

    async def _send_input(self, data: bytes, *, last: bool) -> None:
        """Send input. The command may take long to read it; `poll_output` notices a lost actor."""
        try:
            await self._actors.get_actor(self._host).write.remote(self._key, data, last=last)
        except RayError:
            pass

    async def _poll_until_end(self, answer: ActorOutput) -> None:
        """Ask for output until the command has ended, and put it into the queues."""
        try:
            while True:
                for stream, data in answer["data"].items():
                    self._output[stream].put_nowait(data)
                for stream in answer["ended"]:
                    self._output[stream].put_nowait(None)
                if "code" in answer:
                    self._code.set_result(answer["code"])
                    return
                wanted = self._list_streams_with_space()
                if not wanted:
                    # The queues are full. Ask again when there is space, or soon, to show that the reader exists.
                    self._chunk_taken.clear()
                    await asyncio.wait(
                        [asyncio.ensure_future(self._chunk_taken.wait())], timeout=host_actor.POLL_TIMEOUT
                    )
                    wanted = self._list_streams_with_space()
                answer = await self._call_actor(
                    "poll_output", ANSWER_TIMEOUT + host_actor.POLL_TIMEOUT, self._key, wanted
                )
        except EngineError as error:
            for queue in self._output.values():
                queue.put_nowait(error)
            if not self._code.done():
                self._code.set_exception(error)

    def _list_streams_with_space(self) -> list[int]:
        """Return the streams whose queue takes more chunks."""
        return [stream for stream, queue in self._output.items() if queue.qsize() < STREAM_QUEUE_SIZE]

    async def _call_actor(self, method: str, seconds: float, *words: Any) -> Any:
        """Call a method of the host's actor and return its answer. Raise EngineError if that fails."""
        actor = self._actors.get_actor(self._host)
        try:
            return await wait_with_timeout(seconds, getattr(actor, method).remote(*words))
        except TimeoutError:
            raise EngineError("unreachable", f"it did not answer within {seconds:g}s") from None
        except ActorUnavailableError:
            where = self._host.address or "its node"
            raise EngineError("unreachable", f"{where} does not answer") from None
        except (ActorDiedError, RayActorError):
            raise self._actors.explain_loss(self._host) from None
        except RayError as error:
            raise EngineError("other", get_error_line(error)) from None
