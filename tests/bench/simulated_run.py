"""A run whose agents and hosts are simulated, as a program: `python -m tests.bench.simulated_run ROOT COUNT [STOP_AFTER]`.

It continues a run that an earlier process left in ROOT, and prints what it measured as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal.journal_file import Journal
from mngr.mapreduce.journal.journal_rows import LaunchedRow, SettledRow
from mngr.mapreduce.journal.run_state import JournalRow
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.mapreduce.run_repo import create_run
from mngr.tmr.pipeline import RunObserver, run_tasks
from mngr.tmr.prepare.journal_facts import BaselineRun, RunFact, TestsChosen, TestsCollected
from mngr.tmr.run_plan import RunPlan, save_plan
from mngr.tmr.runners.test_run import TestFunction, TestRun
from tests.bench.simulated_fleet import PROVIDER, RUN, SimulatedFleet

_TESTS_PER_FILE = 50
_BASELINE_PASSES = 2
_AGENTS_PER_HOST = 10
_IMPORTED = [f"src/shop/{name}.py" for name in ("__init__", "cart", "prices", "stock", "orders", "users")]


def make_project(root: Path, count: int) -> None:
    """Create a repository with so many tests."""
    folder = root / "tests"
    folder.mkdir(parents=True)
    for first in range(0, count, _TESTS_PER_FILE):
        numbers = range(first, min(count, first + _TESTS_PER_FILE))
        text = "".join(f"def test_order_{number}_has_the_right_price():\n    assert True\n\n\n" for number in numbers)
        (folder / f"test_orders_{first // _TESTS_PER_FILE}.py").write_text(text)
    git = ["git", "-C", str(root), "-c", "gc.auto=0"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Add tests"]):
        subprocess.run([*git, *words], check=True)


def list_tests(count: int) -> list[TestFunction]:
    """Return the tests of the project, as pytest would collect them."""
    tests = []
    for number in range(count):
        path, name = f"tests/test_orders_{number // _TESTS_PER_FILE}.py", f"test_order_{number}_has_the_right_price"
        test_id = f"{path}::{name}"
        line = 4 * (number % _TESTS_PER_FILE) + 1
        tests.append(TestFunction(id=test_id, ids=[test_id], path=path, line=line, name=name))
    return tests


def write_baseline(run: RunDir, tests: list[TestFunction]) -> None:
    """Write the baseline to the journal: every test passed in both passes."""
    with Journal(run.journal) as journal:

        def note(fact: RunFact) -> None:
            journal.write(fact.to_row(), sync=False)

        note(TestsCollected(tests=tests))
        note(TestsChosen())
        for _ in range(_BASELINE_PASSES):
            for test in tests:
                note(BaselineRun(run=_make_run(test)))


def _make_run(test: TestFunction) -> TestRun:
    return TestRun(
        test=test.id, seen="suite", outcome="pass", seconds=0.0123, cpu=0.0111, exit_code=0, ids={test.id: "pass"},
        command=f"python -m pytest {test.id}", imported_from={"shop": _IMPORTED[0]}, loaded=_IMPORTED,
        environment={"python": "3.11.2", "pytest": "8.4.2", "platform": "Linux-6.1.0-x86_64"}, isolation="on: bubblewrap",
    )  # fmt: skip


def main() -> None:
    """Run or continue the run in ROOT, and print the measurements. Stop like a killed process after STOP_AFTER tasks."""
    root, count = sys.argv[1], int(sys.argv[2])
    stop_after = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    tests = list_tests(count)
    titles = {make_slug(test.id): test.id for test in tests}
    head = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    fleet = SimulatedFleet(os.environ["MNGR_HOME"], root, head.stdout.strip(), titles)
    run = RunDir(root, RUN)
    limits = RunLimits(max_agents=50, max_starting=10, canary=0, free_memory=0, free_disk=0)
    if not os.path.exists(run.plan):
        run, base = create_run(fleet, root, RUN)
        on = f"@.{PROVIDER}"
        plan = RunPlan(
            base=base, pytest=["python", "-m", "pytest"], agent="player", on=on, agents_per_host=_AGENTS_PER_HOST,
            isolation="off", limits=limits, max_tasks=count,
        )  # fmt: skip
        save_plan(run, plan)
        write_baseline(run, tests)
    start, processor_start = time.perf_counter(), time.process_time()
    first_launch: list[float] = []
    settled = [0]

    def on_row(row: JournalRow) -> None:
        if isinstance(row, LaunchedRow) and not first_launch:
            first_launch.append(time.perf_counter() - start)
        settled[0] += isinstance(row, SettledRow)
        if stop_after and settled[0] >= stop_after:
            os._exit(9)

    state = run_tasks(fleet, run, limits, RunObserver(on_row=on_row))
    measured = {
        "processor_seconds": time.process_time() - processor_start,
        "first_launch": first_launch[0] if first_launch else 0.0,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "journal": os.path.getsize(run.journal),
        "confirmed": sum((task.check or {}).get("verdict") == "confirmed" for task in state.tasks.values()),
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
