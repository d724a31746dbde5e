"""Measures tests on created hosts: how much longer they take than the tests themselves, and that no verdict differs.

The hosts are directories on this machine, which cost nothing, so that the measurement shows the cost of mngr.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator

from mngr import Fleet
from mngr.host import git
from mngr.setup.trust import inspect_trust, trust_project
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.demo import create_sample_repo
from mngr.tmr.prepare.baseline import BaselinePlan, run_baseline
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from tests.bench.measure import Case, seconds
from tests.bench.selection import Project
from tests.bench.suites import PROJECTS, make_environment, unpack
from tests.bench.world import BIN, World
from tests.providers.shared import toy

HOSTS, TESTS, FILES = 10, 300, 30
TEST_SECONDS = 1.0
FLAKY = "tests/test_look.py::test_suggest"  # a test of the demo project that passes by chance, so it is not compared
SLEEP = f"import time\n\n\ndef test_{{number}}():\n    time.sleep({TEST_SECONDS})\n\n\n"


def remote_tests(world: World) -> Iterator[Case | str]:
    """Measure tests that sleep on ten hosts, and compare the verdicts of two projects with a local run."""
    env = _install_engine(world)
    yield _measure_sleeping_tests(world, env)
    os.environ.update(env, MNGR_HOME=str(world.home))
    sys.path.insert(0, env["PYTHONPATH"])
    for project in (_create_sample(world), unpack(world, PROJECTS[0], make_environment(world))):
        yield _compare(project.name, _run_suite(world, project, ""), _run_suite(world, project, "@.toy"))


def _install_engine(world: World) -> dict[str, str]:
    """Install the engine as a plugin, and return the variables with which mngr finds it."""
    site, machines = world.root / "engine", world.root / "machines"
    (site / "toy-1.dist-info").mkdir(parents=True)
    (site / "toy-1.dist-info/entry_points.txt").write_text("[mngr]\ntoy = toy_engine\n")
    shutil.copy(toy.__file__, site / "toy_engine.py")
    machines.mkdir()
    return {"PYTHONPATH": str(site), "MNGR__PROVIDERS__TOY__ROOT": str(machines)}


def _measure_sleeping_tests(world: World, env: dict[str, str]) -> Case:
    """Compare a run of sleeping tests with their time on so many hosts, plus the start of one host."""
    root = world.root / "sleeping"
    root.mkdir()
    for file in range(FILES):
        numbers = range(file * TESTS // FILES, (file + 1) * TESTS // FILES)
        (root / f"test_{file}.py").write_text("".join(SLEEP.format(number=number) for number in numbers))
    world.sh(f"cd {root} && git init -q -b main . && git add -A && git commit -q -m tests")
    start = seconds(lambda: world.mngr("create", "probe@.toy", "--", "true", cwd=root, env=env))
    world.mngr("destroy", "--force", "probe", cwd=root, env=env)
    pytest = f"{BIN / 'python'} -m pytest -q -p no:cacheprovider -p no:xdist"
    words = ("tmr", "run", "--name", "r", "--dry-run", "--runs", "1", "--test-on", ".toy", "--max-agents", str(HOSTS))
    case = Case(f"{TESTS} tests of {TEST_SECONDS:g} s on {HOSTS} hosts", times=1.3)
    subject = world.mngr(*words, cwd=root, env={**env, "MNGR__PROJECT__PYTEST": pytest})
    case.add(TESTS * TEST_SECONDS / HOSTS + start, subject)
    return case


def _create_sample(world: World) -> Project:
    """Create the project of `mngr demo`."""
    root = world.root / "sample"
    root.mkdir()
    fleet = Fleet(str(world.home), cwd=str(root))
    create_sample_repo(fleet, str(root))
    local = fleet.context.local_host
    commit = git.run_checked(local, str(root), "rev-parse", "HEAD", git_command=git.GIT).strip()
    return Project("the demo project", root, commit, [str(BIN / "python"), "-m", "pytest"], {})


def _run_suite(world: World, project: Project, on: str) -> dict[str, str]:
    """Run the tests of a project here or on hosts, and return the verdicts."""
    fleet = Fleet(str(world.home), cwd=str(project.repo))
    trust_project(fleet.context, inspect_trust(fleet.context))
    options = CleanRoomOptions(on=on, env=project.env)
    rooms = CleanRoomPool(fleet, "remote" if on else "local", str(project.repo), options, at_once=2)
    runner = PytestRunner(PytestOptions(pytest=project.pytest))
    try:
        with rooms.acquire(project.commit) as room:
            tests = runner.collect(room).tests
        runs = run_baseline(rooms, project.commit, runner, BaselinePlan(tests=tests))
    finally:
        rooms.close()
    return {run.test.id: run.verdict for run in runs}


def _compare(name: str, local: dict[str, str], remote: dict[str, str]) -> str:
    names = {*local, *remote} - {FLAKY}
    different = sorted(test for test in names if local.get(test) != remote.get(test))
    example = f", for example {different[0]}" if different else ""
    counts = dict(Counter(local.values()))
    verdict = "OVER" if different or not local else "PASS"
    return f"{name}: {counts}, {len(different)} verdicts on hosts differ from a local run{example} {verdict}"
