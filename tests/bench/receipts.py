"""Measures receipts, as a multiple of the CPU time that bare pytest uses for the same plain runs of the tests."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mngr import Fleet
from mngr.setup.trust import inspect_trust, trust_project
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.claim_runs import ClaimRunner
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest
from tests.bench.measure import Case, cpu_seconds
from tests.bench.world import BIN, World

RUNS = 3
PYTEST = [str(BIN / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:mngr"]
SHOP = """def total(prices, discount=0):
    result = 0
    for price in prices:
        if price > 0:
            result = result + price
    return result - discount
"""
SHOP_TEST = """from shop_{number} import total


def test_total():
    assert total([1, 2, -5]) == 3
"""
# The replacement on the base that makes an edit of each kind necessary.
KINDS = {
    "FIX_IMPL": ("shop", "return result - discount", "return result - discount + 1"),
    "FIX_TEST": ("test", "== 3", "== 4"),
    "IMPROVE_TEST": ("test", "    assert total([4], discount=1) == 3\n", ""),
}


@dataclass(frozen=True)
class Edits:
    """A branch on which the same number of tests was edited in one way, and the commit where it began."""

    root: Path
    branch: str
    base: str
    tests: list[str]


def receipts(world: World, plain: int = 100, examined: int = 50) -> Iterator[Case | str]:
    """Measure the plain runs of many receipts, then whole receipts at both levels."""
    yield from _measure_plain_runs(world, plain)
    for level, limit in (("quick", 3.0), ("full", 20.0)):
        whole = Case(f"{examined} {level} receipts, CPU time", times=limit)
        floor = subject = 0.0
        for edits in _make_branches(world, f"{level}-receipts", examined):
            bare, elapsed = _run_bare(world, edits), _verify(world, edits, level)
            floor, subject = floor + bare, subject + elapsed
            yield f"  {len(edits.tests)} {level} receipts for {edits.branch}: {elapsed / bare:.2f} x"
        whole.add(floor, subject)
        yield whole


def _measure_plain_runs(world: World, count: int) -> Iterator[Case]:
    """Measure only the repeated runs of the claimed tests, with the clean rooms that they need."""
    case = Case(f"plain runs of {count} receipts, CPU time", times=1.3)
    floor = subject = 0.0
    for edits in _make_branches(world, "plain-runs", count):
        floor += _run_bare(world, edits)
        subject += cpu_seconds(functools.partial(_run_claims, world, edits))
    case.add(floor, subject)
    yield case


def _run_claims(world: World, edits: Edits) -> None:
    os.environ["MNGR_HOME"] = str(world.home)
    fleet = Fleet(str(world.home), cwd=str(edits.root))
    trust_project(fleet.context, inspect_trust(fleet.context))
    options = VerifyOptions(pytest=PYTEST, runs=RUNS)
    room_options = CleanRoomOptions(sandbox=CleanRoomSandbox(program=PYTEST[0]), trusted_commit=edits.base)
    rooms = CleanRoomPool(fleet, "plain", str(edits.root), room_options)

    def run_claim(path: str) -> list[str]:
        test = TestFunction(id=f"{path}::test_total", ids=[f"{path}::test_total"], path=path, name="test_total")
        request = VerifyRequest(test=test, commit=_get_commit(edits.root, edits.branch), base=edits.base)
        with ClaimRunner(rooms, request, options, cache=None, artifacts_dir=None, on_run=None) as runner:
            runs, _ = runner.run_all(trace=edits.branch != "FIX_IMPL")
        return [run.outcome for run in runs]

    with contextlib.closing(rooms), concurrent.futures.ThreadPoolExecutor(rooms.max_rooms) as threads:
        outcomes = list(threads.map(run_claim, edits.tests))
    assert outcomes == [["pass"] * RUNS] * len(edits.tests), outcomes


def _verify(world: World, edits: Edits, level: str) -> float:
    words = ["tmr", "verify", edits.branch, "--runs", str(RUNS), "--verify", level, "--fresh", "-q", "--format", "json"]
    env = {"MNGR__PROJECT__PYTEST": " ".join(PYTEST)}
    return cpu_seconds(lambda: world.run(str(BIN / "mngr"), *words, *edits.tests, cwd=edits.root, env=env))


def _run_bare(world: World, edits: Edits) -> float:
    """Run each test of the branch as often as a receipt does, each in its own process."""
    world.sh(f"cd {edits.root} && git switch -q {edits.branch}")
    rows = "".join(f"{path}\n" * RUNS for path in edits.tests)
    argv = ("xargs", "-P", str(os.cpu_count()), "-n", "1", *PYTEST)
    elapsed = cpu_seconds(lambda: world.run(*argv, cwd=edits.root, stdin=rows))
    world.sh(f"cd {edits.root} && git switch -q main")
    return elapsed


def _make_branches(world: World, name: str, count: int) -> Iterator[Edits]:
    """Create a project with `count` tests, and yield a branch for each kind of edit."""
    root = world.root / name
    (root / "tests").mkdir(parents=True)
    kinds = [list(KINDS)[number % len(KINDS)] for number in range(count)]
    for number, kind in enumerate(kinds):
        _write_files(root, number, kind, is_base=True)
    world.sh(f"cd {root} && git init -q -b main . && git add -A && git commit -q -m tests")
    base = _get_commit(root, "main")
    for kind in KINDS:
        world.sh(f"cd {root} && git switch -q -c {kind} main")
        numbers = [number for number, own_kind in enumerate(kinds) if own_kind == kind]
        for number in numbers:
            _write_files(root, number, kind, is_base=False)
        world.sh(f"cd {root} && git commit -q -a -m '[{kind}] Each of these tests' && git switch -q main")
        yield Edits(root, kind, base, [f"tests/test_{number}.py" for number in numbers])


def _write_files(root: Path, number: int, kind: str, *, is_base: bool) -> None:
    test = SHOP_TEST.format(number=number)
    texts = {"shop": SHOP, "test": test + KINDS["IMPROVE_TEST"][1] if kind == "IMPROVE_TEST" else test}
    name, new, old = KINDS[kind]
    if is_base:
        texts[name] = texts[name].replace(new, old)
    (root / f"shop_{number}.py").write_text(texts["shop"])
    (root / "tests" / f"test_{number}.py").write_text(texts["test"])


def _get_commit(root: Path, ref: str) -> str:
    done = subprocess.run(["git", "rev-parse", ref], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
