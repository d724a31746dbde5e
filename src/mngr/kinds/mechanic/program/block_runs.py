"""Runs blocks of a tutorial for real, each several times in a fresh place, and says what is the same every time."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mngr.e2e.result import CommandTimeout, E2eResult
from mngr.e2e.session import E2eSession
from mngr.kinds.mechanic.program.line_patterns import build_pattern, is_specific

RUN_COUNT = 3
_MAX_OUTPUT_LENGTH = 2000  # characters of what a block printed
BLOCK_TIMEOUT = 30.0  # seconds for a block with all that comes before it
_NETWORK_PATTERN = re.compile(
    r"could ?n.t resolve|could not resolve|name resolution|name or service not known|nodename nor servname"
    r"|network is (unreachable|down)|no route to host|ENOTFOUND|EAI_AGAIN|dial tcp|failed to connect to \S+ port",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class JobBlock:
    """A block of the script; `before` are the texts of those that come before it, in order."""

    id: str
    slug: str
    line: float
    text: str
    section: str | None = None
    preceding_blocks: list[tuple[str | None, str]] = field(default_factory=list)  # (section, text)

    def exclude_setup(self, texts: set[str]) -> JobBlock:
        """The same after less: what fails by itself is nothing to stand on."""
        return replace(
            self,
            preceding_blocks=[(section, text) for section, text in self.preceding_blocks if text not in texts],
        )


@dataclass(frozen=True)
class ObservedBlock:
    """What a block does: after what it works, and the lines that fit what it printed every time."""

    block: JobBlock
    setup: str
    out: list[str] | None  # None when there is nothing to say about it
    err: list[str] | None


@dataclass(frozen=True)
class UnobservableBlock:
    """A block of which no test can be made, and why."""

    block: JobBlock
    reason: str


@dataclass(frozen=True)
class BlockRunner:
    """By what blocks are run, for how long, and what else is to be done between two runs."""

    shell: str
    path: str
    timeout: float
    between_runs: Callable[[], None]
    failing_setups: list[str] = field(default_factory=list)  # what came before blocks and failed itself


def observe_block(block: JobBlock, bench: BlockRunner) -> ObservedBlock | UnobservableBlock:
    """Find what must come before it, then run it several times."""
    setup, first = _find_minimal_setup(block, bench)
    if isinstance(first, str):
        return UnobservableBlock(block, first)
    runs = [first]
    for _ in range(RUN_COUNT - 1):
        again = _run_block(block, setup, bench)
        if isinstance(again, _FailedBlockRun):
            return UnobservableBlock(block, f"it is not the same every time: {again.reason}")
        runs.append(again)
    return _build_observation(block, setup, runs)


def try_block(block: JobBlock, bench: BlockRunner) -> tuple[bool, str]:
    """Run it once, after as much as it takes; whether it succeeds, and what it printed or why not."""
    _, ran = _find_minimal_setup(block, bench)
    return (False, ran) if isinstance(ran, str) else (True, (ran.out + ran.err).strip()[:_MAX_OUTPUT_LENGTH])


def _find_minimal_setup(block: JobBlock, bench: BlockRunner) -> tuple[str, _BlockRun | str]:
    """The least that must come before it, and its run after that; a text says why it fails even after everything."""
    setups = _list_setups(block)
    found = "", ""
    while setups:
        setup = setups.pop(0)
        if any(setup.startswith(other) for other in bench.failing_setups):
            continue
        ran = _run_block(block, setup, bench)
        if isinstance(ran, _BlockRun):
            return setup, ran
        if ran.has_begun or not setup:
            found = setup, ran.reason
        else:
            bench.failing_setups.append(setup)
        if ran.reason == _explain_timeout(bench):  # so that it does not take for ever four times
            setups = setups[-1:]
    setup, why = found
    if why != _explain_timeout(bench) and isinstance(_run_block(block, setup, bench, stdin="\n" * 20), _BlockRun):
        why = f"it asks for input: {why}"
    return setup, why


def _list_setups(block: JobBlock) -> list[str]:
    """What may have to come before it: nothing, the first block, that and its section, all of it."""
    before = [(section, text) for section, text in block.preceding_blocks if _has_commands(text)]
    texts = [text for _, text in before]
    same = [text for section, text in before if section == block.section]
    choices = [[], texts[:1], texts[:1] + [text for text in same if text not in texts[:1]], texts]
    found: list[str] = []
    for choice in choices:
        setup = "\n".join(choice)
        if setup not in found:
            found.append(setup)
    return found


def _has_commands(text: str) -> bool:
    return any(row.strip() and not row.lstrip().startswith("#") for row in text.split("\n"))


@dataclass(frozen=True)
class _BlockRun:
    out: str
    err: str
    names: dict[str, str]


@dataclass(frozen=True)
class _FailedBlockRun:
    reason: str
    has_begun: bool  # the block itself, after what comes before it


def _run_block(block: JobBlock, setup: str, bench: BlockRunner, stdin: str = "") -> _BlockRun | _FailedBlockRun:
    """One run in a fresh place."""
    place = Path(tempfile.mkdtemp(prefix="mechanic-"))
    session = E2eSession(place / "artifacts")
    session.shell = bench.shell
    session.env["PATH"] = bench.path
    mark = session.root / "began"
    try:
        text = build_script(setup, f': >"$MNGR_E2E_ROOT/{mark.name}"\n{block.text}')
        result: E2eResult = session.run(text, timeout=bench.timeout, stdin=stdin)
        if result.exit_code:
            return _FailedBlockRun(_explain_failure(result), mark.exists())
        names = {"HOME": str(session.home), "CWD": str(session.cwd), "ROOT": str(session.root)}
        return _BlockRun(result.stdout, result.stderr, names)
    except CommandTimeout:
        return _FailedBlockRun(_explain_timeout(bench), mark.exists())
    finally:
        session.close()
        shutil.rmtree(place, ignore_errors=True)
        bench.between_runs()


def _explain_timeout(bench: BlockRunner) -> str:
    return f"it did not end within {bench.timeout:g} s, or waits for something"


def _explain_failure(result: E2eResult) -> str:
    """Why a run failed, as far as can be told."""
    said = (result.stderr or result.stdout).strip().rpartition("\n")[2]
    needs = "it needs the network: " if _NETWORK_PATTERN.search(result.stderr or result.stdout) else ""
    return f"{needs}it ends with {result.exit_code}" + (f": {said}" if said else "")


def build_script(setup: str, text: str) -> str:
    """The block after what must come before it, of which nothing is shown; it ends where something fails."""
    before = "{\n" + setup + "\n} >/dev/null 2>&1 </dev/null\n" if setup else ""
    return f"set -e\n{before}{text}"


def _build_observation(block: JobBlock, setup: str, runs: list[_BlockRun]) -> ObservedBlock:
    names = [run.names for run in runs]
    shown = []
    for texts in ([run.out for run in runs], [run.err for run in runs]):
        rows = build_pattern(texts, names)
        shown.append(rows if is_specific(rows) else None)
    return ObservedBlock(block, setup, shown[0], shown[1])


def build_search_path(work: str) -> str:
    """Where programs are looked for: first those that the project's own set-up installed."""
    own = [os.path.join(work, *place) for place in ((".venv", "bin"), ("node_modules", ".bin"))]
    return ":".join([*(place for place in own if os.path.isdir(place)), os.environ.get("PATH", os.defpath)])
