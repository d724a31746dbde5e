"""Runs blocks of a tutorial for real, each several times in a fresh place, and says what is the same every time."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mngr.e2e.result import CommandTimeout, Result
from mngr.e2e.session import E2eSession
from mngr.mechanic.pattern import is_saying_something, pattern

TIMES = 3
_SHOWN = 2000  # characters of what a block printed
TIMEOUT = 30.0  # seconds for a block with all that comes before it


@dataclass(frozen=True)
class Block:
    """A block of the script; `before` are the texts of those that come before it, in order."""

    id: str
    slug: str
    text: str
    section: str | None = None
    before: list[tuple[str | None, str]] = field(default_factory=list)  # (section, text)


@dataclass(frozen=True)
class Seen:
    """What a block does: after what it works, and the lines that fit what it printed every time."""

    block: Block
    setup: str
    out: list[str] | None  # None when there is nothing to say about it
    err: list[str] | None


@dataclass(frozen=True)
class Unseen:
    """A block of which no test can be made, and why."""

    block: Block
    why: str


def observe(block: Block, shell: str, path: str, between: Callable[[], None] = lambda: None) -> Seen | Unseen:
    """Find what must come before it, then run it several times."""
    setup, first = _first(block, shell, path, between)
    if isinstance(first, str):
        return Unseen(block, first)
    runs = [first]
    for _ in range(TIMES - 1):
        again = _run(block, setup, shell, path)
        between()
        if isinstance(again, str):
            return Unseen(block, f"it is not the same every time: {again}")
        runs.append(again)
    return _seen(block, setup, runs)


def attempt(
    block: Block, shell: str, path: str, between: Callable[[], None] = lambda: None
) -> tuple[bool, str]:
    """Run it once, after as much as it takes; whether it succeeds, and what it printed or why not."""
    _, ran = _first(block, shell, path, between)
    return (False, ran) if isinstance(ran, str) else (True, (ran.out + ran.err).strip()[:_SHOWN])


def _first(block: Block, shell: str, path: str, between: Callable[[], None]) -> tuple[str, _Ran | str]:
    """The least that must come before it, and its run after that; a text says why it fails even after everything."""
    for setup in _setups(block):
        ran = _run(block, setup, shell, path)
        between()
        if isinstance(ran, _Ran):
            break
    return setup, ran


def _setups(block: Block) -> list[str]:
    """What may have to come before it: nothing, the first block, that and its section, all of it."""
    texts = [text for _, text in block.before]
    same = [text for section, text in block.before if section == block.section]
    choices = [[], texts[:1], texts[:1] + [text for text in same if text not in texts[:1]], texts]
    found: list[str] = []
    for choice in choices:
        setup = "\n".join(choice)
        if setup not in found:
            found.append(setup)
    return found


@dataclass(frozen=True)
class _Ran:
    out: str
    err: str
    names: dict[str, str]


def _run(block: Block, setup: str, shell: str, path: str) -> _Ran | str:
    """One run in a fresh place; a text says why it does not count."""
    place = Path(tempfile.mkdtemp(prefix="mechanic-"))
    session = E2eSession(place / "artifacts")
    session.shell = shell
    session.env["PATH"] = path
    try:
        result: Result = session.run(script(setup, block.text), timeout=TIMEOUT)
        names = {"HOME": str(session.home), "CWD": str(session.cwd), "ROOT": str(session.root)}
    except CommandTimeout:
        return f"it did not end within {TIMEOUT:g} s, or waits for something"
    finally:
        session.close()
        shutil.rmtree(place, ignore_errors=True)
    if result.exit_code:
        said = (result.stderr or result.stdout).strip().rpartition("\n")[2]
        return f"it ends with {result.exit_code}" + (f": {said}" if said else "")
    return _Ran(result.stdout, result.stderr, names)


def script(setup: str, text: str) -> str:
    """The block after what must come before it, of which nothing is shown; it ends where something fails."""
    before = "{\n" + setup + "\n} >/dev/null 2>&1 </dev/null\n" if setup else ""
    return f"set -e\n{before}{text}"


def _seen(block: Block, setup: str, runs: list[_Ran]) -> Seen:
    names = [run.names for run in runs]
    shown = []
    for texts in ([run.out for run in runs], [run.err for run in runs]):
        rows = pattern(texts, names)
        shown.append(rows if is_saying_something(rows) else None)
    return Seen(block, setup, shown[0], shown[1])


def search_path(work: str) -> str:
    """Where programs are looked for: first those that the project's own set-up installed."""
    own = [os.path.join(work, *place) for place in ((".venv", "bin"), ("node_modules", ".bin"))]
    return ":".join([*(place for place in own if os.path.isdir(place)), os.environ.get("PATH", os.defpath)])
