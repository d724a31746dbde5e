"""What Modal's library does alone, in the Python that has it: told what to do by lines, it answers how long that took."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import modal  # type: ignore[import-not-found, unused-ignore]


class Alone:
    """Sandboxes, and commands in them, so many at a time."""

    def __init__(self, at_once: int) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._made: list[Any] = []

    async def create(self, count: int, *words: str) -> float:
        """Make sandboxes and run one command in each."""
        app = await modal.App.lookup.aio("alone", create_if_missing=True)
        image = await modal.Image.debian_slim().build.aio(app)

        async def one() -> None:
            async with self._room:
                made = await modal.Sandbox.create.aio("sleep", "infinity", app=app, image=image, timeout=3600)
                await _run(made, *words)
            self._made.append(made)

        return await _timed(*(one() for _ in range(count)))

    async def exec(self, ids: list[str], *words: str) -> float:
        """Run one command in each of these; they are looked up before."""
        found = await asyncio.gather(*(modal.Sandbox.from_id.aio(sandbox) for sandbox in ids))

        async def one(sandbox: Any) -> None:
            async with self._room:
                await _run(sandbox, *words)

        await asyncio.gather(*(one(sandbox) for sandbox in found))  # the ways to them are open then
        return await _timed(*(one(sandbox) for sandbox in found))

    async def end(self) -> float:
        """Take away what was made."""
        made, self._made = self._made, []
        return await _timed(*(sandbox.terminate.aio() for sandbox in made))


async def _run(sandbox: Any, *words: str) -> None:
    process = await sandbox.exec.aio(*(words or ["true"]))
    if words:
        await process.stdout.read.aio()  # it was run for what it says
    assert await process.wait.aio() == 0


async def _timed(*work: Any) -> float:
    start = time.perf_counter()
    await asyncio.gather(*work)
    return time.perf_counter() - start


async def main() -> None:
    """A line `[VERB, ARGUMENTS…]` in, a line with the seconds out."""
    alone = Alone(int(sys.argv[1]))
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *words = json.loads(line)
        print(await getattr(alone, verb)(*words), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
