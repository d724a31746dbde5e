"""Measures the board with many agents: the CPU time while nothing happens, and the time from a key to the paint."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.bench.world import BIN, World

_AGENTS = 200
_IDLE_SECONDS = 30.0
_KEYS = 60
_QUIET_SHARE = 0.10  # of one core; below it the board has read what it shows


def board(world: World) -> Iterator[str]:
    """Open the board in a pty, and yield a line for each measurement."""
    repo = world.root / "repo-200"  # other parts use it, too
    if not repo.exists():
        world.repo(200, 2000)
    world.mngr("create", "b", "--count", str(_AGENTS), "--no-connect", "--", "sleep", "100000", cwd=repo)
    started_at = time.monotonic()
    with PtyTerminal([str(BIN / "mngr"), "board"], repo, world.env, rows=50, columns=160) as terminal:
        terminal.wait_for_text(" working", timeout=60.0)  # Other parts may have left agents.
        yield f"board with {_AGENTS} agents: the list is shown after {time.monotonic() - started_at:.1f} s"
        pid = _wait_until_quiet(terminal)
        yield f"{'':24}all facts are read after {time.monotonic() - started_at:.0f} s"
        share = _measure_share(terminal, pid, _IDLE_SECONDS)
        yield f"{'':24}idle: {share:.1%} of one core with all processes that it starts, of at most 3 % {_judge(share <= 0.03)}"
        delays = sorted(_press_keys(terminal))
        worst, median = delays[-1], statistics.median(delays)
        verdict = _judge(median <= 0.050)
        yield f"{'':24}key to paint: median {median * 1000:.0f} ms, of at most 50 ms {verdict}; slowest of {_KEYS}: {worst * 1000:.0f} ms"


def _judge(is_good: bool) -> str:
    return "PASS" if is_good else "OVER"


def _wait_until_quiet(terminal: PtyTerminal) -> int:
    """Wait until the board has read all facts, and return the id of its process."""
    pid = terminal.process.pid
    deadline = time.monotonic() + 300.0
    while _measure_share(terminal, pid, 3.0) > _QUIET_SHARE and time.monotonic() < deadline:
        pass
    return pid


def _measure_share(terminal: PtyTerminal, pid: int, seconds: float) -> float:
    """Return the share of one core that the board uses, while its output is read."""
    before, started_at = _count_cpu(pid), time.monotonic()
    while (left := started_at + seconds - time.monotonic()) > 0:
        terminal.read_raw(left)
    return (_count_cpu(pid) - before) / (time.monotonic() - started_at)


def _count_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _press_keys(terminal: PtyTerminal) -> Iterator[float]:
    """Yield the time from each key until the newly selected line has arrived, and wait for the quiet after it."""
    for _ in range(_KEYS):
        while terminal.read_raw(0.4):
            pass
        started_at = time.perf_counter()
        terminal.type("j")
        shown = b""
        while b"\x1b[7m" not in shown and b";7m" not in shown and b"[7;" not in shown and b";7;" not in shown:
            data = terminal.read_raw(2.0)
            if not data:
                break
            shown += data
        yield time.perf_counter() - started_at
