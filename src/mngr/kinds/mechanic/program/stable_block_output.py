"""Runs the blocks of a tutorial several times, each in a fresh directory, and finds output that is always the same."""

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
_MAX_OUTPUT_LENGTH = 2000  # characters of a block's output
BLOCK_TIMEOUT = 30.0  # seconds for a block together with its set-up
_NETWORK_PATTERN = re.compile(
    r"could ?n.t resolve|could not resolve|name resolution|name or service not known|nodename nor servname"
    r"|network is (unreachable|down)|no route to host|ENOTFOUND|EAI_AGAIN|dial tcp|failed to connect to \S+ port",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class JobBlock:
    """A block of the script, with the blocks that precede it."""

    id: str
    slug: str
    line: float
    text: str
    section: str | None = None
    preceding_blocks: list[tuple[str | None, str]] = field(default_factory=list)  # (section, text)

    def exclude_setup(self, texts: set[str]) -> JobBlock:
        """Return the block without these preceding texts: a block that fails itself is no use as set-up."""
        return replace(
            self,
            preceding_blocks=[(section, text) for section, text in self.preceding_blocks if text not in texts],
        )


@dataclass(frozen=True)
class ObservedBlock:
    """A block that works: the set-up it needs, and the lines that match its output in every run."""

    block: JobBlock
    setup: str
    out: list[str] | None  # None when nothing specific is the same in every run
    err: list[str] | None


@dataclass(frozen=True)
class UnobservableBlock:
    """A block from which no test can be written, and the reason."""

    block: JobBlock
    reason: str


@dataclass(frozen=True)
class BlockRunner:
    """How to run blocks: the shell, the PATH, the timeout, and an action between two runs."""

    shell: str
    path: str
    timeout: float
    between_runs: Callable[[], None]
    failing_setups: list[str] = field(default_factory=list)  # set-ups that failed before their block began


def observe_block(block: JobBlock, runner: BlockRunner) -> ObservedBlock | UnobservableBlock:
    """Find the set-up that a block needs, then run the block RUN_COUNT times and return the result."""
    setup, first = _find_minimal_setup(block, runner)
    if isinstance(first, str):
        return UnobservableBlock(block, first)
    runs = [first]
    for _ in range(RUN_COUNT - 1):
        run = _run_block(block, setup, runner)
        if isinstance(run, _FailedBlockRun):
            return UnobservableBlock(block, f"it does not behave the same in every run: {run.reason}")
        runs.append(run)
    return _build_observation(block, setup, runs)


def try_block(block: JobBlock, runner: BlockRunner) -> tuple[bool, str]:
    """Run a block once after its set-up; return whether it succeeds, and its output or the reason of the failure."""
    _, result = _find_minimal_setup(block, runner)
    return (
        (False, result) if isinstance(result, str) else (True, (result.out + result.err).strip()[:_MAX_OUTPUT_LENGTH])
    )


def _find_minimal_setup(block: JobBlock, runner: BlockRunner) -> tuple[str, _BlockRun | str]:
    """Return the smallest set-up after which the block works, and that run.

    If the block fails even after all preceding blocks, return the reason instead of the run.
    """
    setups = _list_setups(block)
    last_failure = "", ""
    while setups:
        setup = setups.pop(0)
        if any(setup.startswith(other) for other in runner.failing_setups):
            continue
        run = _run_block(block, setup, runner)
        if isinstance(run, _BlockRun):
            return setup, run
        if run.has_begun or not setup:
            last_failure = setup, run.reason
        else:
            runner.failing_setups.append(setup)
        if run.reason == _explain_timeout(
            runner
        ):  # Try only the last set-up, so that the block does not time out four times.
            setups = setups[-1:]
    setup, reason = last_failure
    if reason != _explain_timeout(runner) and isinstance(_run_block(block, setup, runner, stdin="\n" * 20), _BlockRun):
        reason = f"it asks for input: {reason}"
    return setup, reason


def _list_setups(block: JobBlock) -> list[str]:
    """Return the possible set-ups: nothing, the first block, that and the block's section, all preceding blocks."""
    preceding = [(section, text) for section, text in block.preceding_blocks if _has_commands(text)]
    texts = [text for _, text in preceding]
    same_section = [text for section, text in preceding if section == block.section]
    choices = [[], texts[:1], texts[:1] + [text for text in same_section if text not in texts[:1]], texts]
    setups: list[str] = []
    for choice in choices:
        setup = "\n".join(choice)
        if setup not in setups:
            setups.append(setup)
    return setups


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
    has_begun: bool  # False when the set-up failed before the block


def _run_block(block: JobBlock, setup: str, runner: BlockRunner, stdin: str = "") -> _BlockRun | _FailedBlockRun:
    """Run the set-up and the block once in a fresh directory."""
    directory = Path(tempfile.mkdtemp(prefix="mechanic-"))
    session = E2eSession(directory / "artifacts")
    session.shell = runner.shell
    session.env["PATH"] = runner.path
    begin_marker = session.root / "began"
    try:
        text = build_script(setup, f': >"$MNGR_E2E_ROOT/{begin_marker.name}"\n{block.text}')
        result: E2eResult = session.run(text, timeout=runner.timeout, stdin=stdin)
        if result.exit_code:
            return _FailedBlockRun(_explain_failure(result), begin_marker.exists())
        names = {"HOME": str(session.home), "CWD": str(session.cwd), "ROOT": str(session.root)}
        return _BlockRun(result.stdout, result.stderr, names)
    except CommandTimeout:
        return _FailedBlockRun(_explain_timeout(runner), begin_marker.exists())
    finally:
        session.close()
        shutil.rmtree(directory, ignore_errors=True)
        runner.between_runs()


def _explain_timeout(runner: BlockRunner) -> str:
    return f"it did not finish within {runner.timeout:g} s; it may be waiting for something"


def _explain_failure(result: E2eResult) -> str:
    """Return why a run failed: its exit code, its last line, and whether it needs the network."""
    last_line = (result.stderr or result.stdout).strip().rpartition("\n")[2]
    prefix = "it needs the network: " if _NETWORK_PATTERN.search(result.stderr or result.stdout) else ""
    return f"{prefix}it exits with {result.exit_code}" + (f": {last_line}" if last_line else "")


def build_script(setup: str, text: str) -> str:
    """Return a script that runs the silenced set-up and then the block, and ends at the first failure."""
    prelude = "{\n" + setup + "\n} >/dev/null 2>&1 </dev/null\n" if setup else ""
    return f"set -e\n{prelude}{text}"


def _build_observation(block: JobBlock, setup: str, runs: list[_BlockRun]) -> ObservedBlock:
    names = [run.names for run in runs]
    patterns = []
    for texts in ([run.out for run in runs], [run.err for run in runs]):
        rows = build_pattern(texts, names)
        patterns.append(rows if is_specific(rows) else None)
    return ObservedBlock(block, setup, patterns[0], patterns[1])


def build_search_path(work_dir: str) -> str:
    """Return the PATH for programs: the directories of the project's own set-up come first."""
    project_dirs = [os.path.join(work_dir, *parts) for parts in ((".venv", "bin"), ("node_modules", ".bin"))]
    return ":".join([*(parts for parts in project_dirs if os.path.isdir(parts)), os.environ.get("PATH", os.defpath)])
