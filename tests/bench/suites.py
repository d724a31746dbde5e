"""Measures the baseline on real test suites, as a multiple of the same passes by bare pytest.

MNGR_BENCH_SUITES names other projects than those of the list, for example `boltons==25.0.0`. MNGR_BENCH_PYTHON is the
Python that runs the suites.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mngr import Fleet
from mngr.setup.trust import inspect_trust, trust_project
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.prepare.baseline import BaselinePlan, BaselineRuns, run_baseline
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import CollectedTests, SuiteLines, SuiteRequest, TestFunction
from tests.bench.measure import Case, seconds
from tests.bench.selection import Project, measure_selection
from tests.bench.world import World

PASSES = 2
_SECOND_RUNS = 3
# Source distributions from the package index, which ship their tests, and the packages that their tests need.
PROJECTS = ("click==8.1.8", "boltons==25.0.0", "more-itertools==10.5.0")
PACKAGES = ("pytest==8.4.2",)


def suites(world: World) -> Iterator[Case | str]:
    """Measure collection, the baseline and a repeated baseline on each project."""
    python = make_environment(world)
    for requirement in os.environ.get("MNGR_BENCH_SUITES", "").split() or PROJECTS:
        yield from _measure(world, unpack(world, requirement, python))


def _measure(world: World, project: Project) -> Iterator[Case | str]:
    bare = Case(f"{project.name}: baseline of {PASSES} passes", times=1.5, more=3.0)
    floor = sum(seconds(lambda: _run_bare(project)) for _ in range(PASSES))
    os.environ["MNGR_HOME"] = str(world.home)
    fleet = Fleet(str(world.home), cwd=str(project.repo))
    trust_project(fleet.context, inspect_trust(fleet.context))
    sandbox = CleanRoomSandbox(program=project.pytest[0])
    rooms = CleanRoomPool(fleet, "suites", str(project.repo), CleanRoomOptions(env=project.env, sandbox=sandbox))
    runner = PytestRunner(PytestOptions(pytest=project.pytest))
    with rooms.acquire(project.commit) as room:
        collected: list[CollectedTests] = []
        collection = seconds(lambda: collected.append(runner.collect(room)))
        tests = collected[0].tests
    results: list[BaselineRuns] = []
    plan = BaselinePlan(tests=tests, runs=PASSES)
    bare.add(floor, seconds(lambda: results.extend(run_baseline(rooms, project.commit, runner, plan))))
    yield bare
    traced = Case(f"{project.name}: the same with the lines of each test", times=2.5)
    recorded: list[SuiteLines] = []
    plan = plan.replace(trace=True)
    traced.add(floor, seconds(lambda: run_baseline(rooms, project.commit, runner, plan, on_lines=recorded.append)))
    yield traced
    yield _describe(project, results)
    yield _measure_tracing(project, rooms, runner, tests)
    yield _measure_second_run(world, project, collection)
    yield from measure_selection(project, functools.reduce(SuiteLines.merge, recorded))


def _measure_tracing(
    project: Project, rooms: CleanRoomPool, runner: PytestRunner, tests: Sequence[TestFunction]
) -> str:
    """Compare the processor time of the suite with and without the recording of lines."""
    with rooms.acquire(project.commit) as room:
        plain, traced = (
            runner.run_suite(room, SuiteRequest(tests=list(tests), trace=trace)).whole.cpu for trace in (False, True)
        )
    words = subprocess.run([project.pytest[0], "--version"], capture_output=True, text=True, check=True).stdout
    return f"{project.name}: recording lines takes {traced / plain:.2f} x the processor time of {plain:.1f} s, {words.strip()}"


def _measure_second_run(world: World, project: Project, collection: float) -> Case:
    """Measure a run on a project that has not changed since the first run: it collects the tests and runs none."""
    words = [*project.pytest, "-o", f"pythonpath={project.env['PYTHONPATH']}"]
    env = {"MNGR__PROJECT__PYTEST": shlex.join(words)}
    case = Case(f"{project.name}: a second run, against collection", times=1.0, more=2.0)
    command = ("tmr", "run", "--dry-run", "--yes")
    world.mngr(*command, cwd=project.repo, env=env)
    for _ in range(_SECOND_RUNS):
        case.add(collection, world.mngr(*command, cwd=project.repo, env=env))
    return case


def _describe(project: Project, results: list[BaselineRuns]) -> str:
    verdicts: dict[str, int] = {}
    for result in results:
        verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
    alone = sum(run.seen == "alone" for result in results for run in result.runs)
    ids = sum(len(result.test.ids) for result in results)
    return f"{project.name}: {ids} tests in {len(results)} functions, {verdicts}, {alone} runs alone"


def _run_bare(project: Project) -> None:
    env = {**os.environ, **project.env}
    subprocess.run([*project.pytest, "-q"], cwd=project.repo, env=env, capture_output=True, check=False)


def make_environment(world: World) -> Path:
    """Return the Python of a new virtual environment with pytest."""
    place = world.root / "environment"
    python = os.environ.get("MNGR_BENCH_PYTHON") or sys.executable
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    subprocess.run([place / "bin" / "pip", "install", "-q", *PACKAGES], capture_output=True, check=True)
    return place / "bin" / "python"


def unpack(world: World, requirement: str, python: Path) -> Project:
    """Download a source distribution and commit its files."""
    name, _, version = requirement.partition("==")
    place = world.root / "projects"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps", "-d", str(place)]
    subprocess.run([*pip, requirement], capture_output=True, check=True)
    archive = next(
        path for path in place.iterdir() if path.name.endswith(f"-{version}.tar.gz") and name[:5] in path.name
    )
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    repo = place / archive.name.removesuffix(".tar.gz")
    world.sh(f"cd {repo} && git init -q -b main . && git add -A -f && git commit -q -m first")
    source = "src" if (repo / "src").is_dir() else "."
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True)
    return Project(
        name,
        repo,
        commit.stdout.strip(),
        [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts="],
        {"PYTHONPATH": source},
    )
