"""Runs Modal's library alone, in its own Python: reads requests line by line, and answers how long each took."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import modal  # type: ignore[import-not-found, unused-ignore]


class Alone:
    """Sandboxes and commands in them, at most `at_once` at the same time."""

    def __init__(self, at_once: int) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._made: list[Any] = []

    async def create(self, count: int, *words: str) -> float:
        """Create sandboxes and run one command in each."""
        app = await modal.App.lookup.aio("alone", create_if_missing=True)
        image = await modal.Image.debian_slim().build.aio(app)

        async def create_one() -> None:
            async with self._room:
                sandbox = await modal.Sandbox.create.aio("sleep", "infinity", app=app, image=image, timeout=3600)
                await _run(sandbox, *words)
            self._made.append(sandbox)

        return await _timed(*(create_one() for _ in range(count)))

    async def exec(self, ids: list[str], *words: str) -> float:
        """Run one command in each sandbox. They are looked up before the measurement."""
        sandboxes = await asyncio.gather(*(modal.Sandbox.from_id.aio(sandbox) for sandbox in ids))

        async def run_in(sandbox: Any) -> None:
            async with self._room:
                await _run(sandbox, *words)

        # This opens the connections before the measurement.
        await asyncio.gather(*(run_in(sandbox) for sandbox in sandboxes))
        return await _timed(*(run_in(sandbox) for sandbox in sandboxes))

    async def end(self) -> float:
        """End all sandboxes that were created."""
        sandboxes, self._made = self._made, []
        return await _timed(*(sandbox.terminate.aio() for sandbox in sandboxes))


async def _run(sandbox: Any, *words: str) -> None:
    process = await sandbox.exec.aio(*(words or ["true"]))
    if words:
        await process.stdout.read.aio()  # the output of the command is needed
    assert await process.wait.aio() == 0


async def _timed(*work: Any) -> float:
    start = time.perf_counter()
    await asyncio.gather(*work)
    return time.perf_counter() - start


async def main() -> None:
    """Read lines `[VERB, ARGUMENTS…]` and print the seconds of each."""
    alone = Alone(int(sys.argv[1]))
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *words = json.loads(line)
        print(await getattr(alone, verb)(*words), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
