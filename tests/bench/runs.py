"""Measures a run on many tests: how much longer it takes than the tests, and what watching idle agents costs."""

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
# Runs a test and appends the CPU time of all its processes to the log, if the log is writable.
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
    """Measure the same tests with a slot for each task, with ten slots, and more tasks with twenty slots."""
    cases = [_run(world, 100, 100), _run(world, 100, 10), _run(world, 300, 20)]
    return cases


def _run(world: World, tasks: int, slots: int, seconds: float = 1.0) -> Case:
    """Compare the wall time with the CPU time of all test processes, divided by the cores."""
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
    elapsed = world.mngr(*words, "--max-agents", str(slots), "--format", "json", cwd=root, env=env)
    agent_cpu = [float(number) for line in log.read_text().splitlines() for number in line.split()]
    own_cpu = _ours(root)
    assert len(agent_cpu) == 2 * tasks and len(own_cpu) >= 2 * tasks, (
        f"{len(agent_cpu)} and {len(own_cpu)} of {tasks} tests"
    )
    cpu = sum(agent_cpu) + sum(own_cpu)
    case = Case(f"tmr run, {tasks} tests of {seconds:g} s, {slots} slots", times=1.25)
    case.add(cpu / (os.cpu_count() or 1), elapsed)
    return case


def idle(world: World, agents: int = 100, seconds: float = 30.0) -> float:
    """Return the share of one core that the scheduler uses while `agents` agents do nothing."""
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
    """Return the CPU seconds of a process and of its reaped children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _ours(root: Path) -> list[float]:
    """Return the CPU time of each test that mngr ran itself, for the baseline and for receipts.

    It includes the sandbox, some hundredths of a second.
    """
    (journal,) = root.glob(".mngr/runs/*/journal.jsonl")
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    baseline = [row["run"]["cpu"] for row in rows if row["type"] == "baseline_run"]
    return baseline + [run["cpu"] for row in rows if row["type"] == "checked" for run in row["check"]["results"]]
