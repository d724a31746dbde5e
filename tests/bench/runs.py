"""A run on many tests: how much longer it takes than the tests themselves, and what watching costs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from tests.bench.measure import Case
from tests.bench.world import BIN, World

TEST = """import time


def test_burn():
    end = time.process_time() + {seconds}
    while time.process_time() < end:
        pass
"""
# Runs a test and notes what all its processes have cost, from the first to the last moment, where that can be written.
METER = """#!/bin/bash
TIMEFORMAT='%U %S'
[ -w {log} ] || exec "$@"
exec 3>&2
{{ time "$@" 2>&3; }} 2>>{log}
"""
STEPS = [
    {"run": "echo '# seen' >>$(echo \"$TEST\" | cut -d: -f1)"},
    "test",
    {"commit": "[IMPROVE_TEST] Seen"},
    {"result": {"outcome": "improved", "before": "pass", "after": "pass"}},
]


def runs(world: World) -> list[Case]:
    """The same tests with a slot for each task, with ten slots, and more tasks with twenty."""
    cases = [_run(world, 100, 100), _run(world, 100, 10), _run(world, 300, 20)]
    return cases


def _run(world: World, tasks: int, slots: int, seconds: float = 1.0) -> Case:
    """Wall time against the processor time of all test processes, shared by all cores."""
    root, log = world.root / f"run-{tasks}-{slots}", world.root / f"cpu-{tasks}-{slots}"
    (root / "tests").mkdir(parents=True)
    (root / ".gitignore").write_text("__pycache__/\n")
    (root / "meter").write_text(METER.format(log=log))
    (root / "meter").chmod(0o755)
    log.touch()
    for number in range(tasks):
        (root / "tests" / f"test_{number}.py").write_text(TEST.format(seconds=seconds))
    world.sh(f"cd {root} && git init -q -b main . && git add -A && git commit -q -m tests")
    words = [
        "tmr",
        "run",
        "--no-integrate",
        "--agent",
        "player",
        "--agent-arg",
        json.dumps(STEPS),
        "--runs",
        "1",
        "--verify-runs",
        "1",
        "--canary",
        "0",
        "-q",
    ]
    env = {"MNGR__PROJECT__PYTEST": f"./meter {BIN / 'python'} -m pytest -q -p no:cacheprovider -p no:xdist -p no:mngr"}
    spent = world.mngr(*words, "--max-agents", str(slots), "--format", "json", cwd=root, env=env)
    noted = [float(number) for line in log.read_text().splitlines() for number in line.split()]
    ours = _ours(root)
    assert len(noted) == 2 * tasks and len(ours) >= 2 * tasks, f"{len(noted)} and {len(ours)} of {tasks} tests"
    cpu = sum(noted) + sum(ours)
    case = Case(f"tmr run, {tasks} tests of {seconds:g} s, {slots} slots", times=1.25)
    case.add(cpu / (os.cpu_count() or 1), spent)
    return case


def idle(world: World, agents: int = 100, seconds: float = 30.0) -> float:
    """The share of one core that the orchestrator uses while so many agents do nothing."""
    root = world.root / "idle"
    root.mkdir()
    world.sh(f"cd {root} && git init -q -b main . && git commit -q --allow-empty -m x")
    words = [str(BIN / "mngr"), "map", *map(str, range(agents)), "--agent", "player", "-p", "wait", "--max-agents", str(agents),
             "--canary", "0", "--name", "idle", "-q", "--", '["hang"]']  # fmt: skip
    process = subprocess.Popen(words, cwd=root, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = root / ".mngr" / "runs" / "idle" / "journal.jsonl"
    while not journal.exists() or journal.read_text().count('"prompted"') < agents:
        time.sleep(0.2)
    before = _cpu(process.pid)
    time.sleep(seconds)
    used = (_cpu(process.pid) - before) / seconds
    process.kill()
    process.wait()
    return used


def _cpu(pid: int) -> float:
    """Seconds of a process and of all that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _ours(root: Path) -> list[float]:
    """What each run of ours has cost: untouched, and for receipts; with the walls around it, some hundredths of a second."""
    (journal,) = root.glob(".mngr/runs/*/journal.jsonl")
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    before = [row["run"]["cpu"] for row in rows if row["type"] == "ran"]
    return before + [run["cpu"] for row in rows if row["type"] == "checked" for run in row["check"]["results"]]


def receipts(world: World, tests: int = 100, seconds: float = 0.5) -> Case:
    """Receipts of a branch that has changed so many tests, against the same runs of pytest and nothing else."""
    root = world.root / "receipts"
    (root / "tests").mkdir(parents=True)
    paths = [root / "tests" / f"test_{number}.py" for number in range(tests)]
    for path in paths:
        path.write_text(TEST.format(seconds=seconds))
    pytest = f"{BIN / 'python'} -m pytest -q -p no:cacheprovider -p no:xdist -p no:mngr"
    world.sh(f"cd {root} && git init -q -b main . && git add -A && git commit -q -m tests && git switch -q -c more")
    for path in paths:
        path.write_text(path.read_text() + "    assert end\n")
    world.sh(f"cd {root} && git commit -q -a -m '[IMPROVE_TEST] One check more' && git switch -q main")
    times = "".join(f"tests/{path.name}\n" * 3 for path in paths)
    bare = world.time("xargs", "-P", str(os.cpu_count()), "-n", "1", *pytest.split(), cwd=root, stdin=times)
    words = ["tmr", "verify", "more", "--runs", "3", "--fresh", "-q", "--format", "json"]
    spent = world.mngr(*words, cwd=root, env={"MNGR__PROJECT__PYTEST": pytest})
    case = Case(f"{tests} receipts of 3 runs, tests of {seconds:g} s", times=1.3)
    case.add(bare, spent)
    return case
