"""Mutation in real clean rooms: which lines a test runs, and which faults its two versions catch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.testkit.contract.mngr_program import run_git
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.runners.pytest.in_clean_room import replaced_files
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import RunOptions, TestFunction
from mngr.tmr.verify.mutation import MutationReport, compare_versions
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest
from tests.tmr.world import PYTEST, World, new_world

pytestmark = pytest.mark.agents

TILL = """
    import os
    import sys


    def total(prices):
        return sum(prices)


    def bill(prices):
        if len(prices) > 100:
            raise ValueError("too many")
        return f"total: {total(prices)}"


    def unused(prices):
        return bill(prices)


    def main():
        print(bill([int(word) for word in sys.argv[1:]]), flush=True)
        os._exit(0)


    if __name__ == "__main__":
        main()
    """

PROGRAM = """
    import os
    import subprocess
    import sys


    def till(*words):
        script = os.path.join(os.path.dirname(__file__), "..", "till.py")
        ran = subprocess.run([sys.executable, script, *words], env={}, capture_output=True, text=True)
        return ran.stdout
    """

STRONG = """
    from helpers import till


    def test_total():
        assert till("1", "2") == "total: 3\\n"
    """

WEAK = """
    from helpers import till


    def test_total():
        assert till("1", "2") is not None
    """


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {
        "till.py": TILL,
        "tests/helpers.py": PROGRAM,
        "tests/test_strong.py": STRONG,
        "tests/test_weak.py": WEAK,
    }
    with new_world(tmp_path_factory.mktemp("mutation"), files) as world:
        yield world


def find_test(world: World, path: str) -> TestFunction:
    return next(test for test in world.collected.tests if test.path == path)


def compare_edit(
    world: World,
    files: dict[str, str],
    test: str | TestFunction,
    n: int = 2,
    cache: ResultCache | None = None,
    budget: int | None = None,
) -> MutationReport:
    """Compare a test before and after an edit."""
    commit = world.write(files)
    test = find_test(world, test) if isinstance(test, str) else test
    try:
        request = VerifyRequest(test=test, commit=commit, base=world.base)
        options = VerifyOptions(pytest=PYTEST, timeout=30.0, mutant_count=n)
        return compare_versions(world.rooms, request, options, cache=cache, budget=budget)
    finally:
        run_git(world.repo, "reset", "-q", "--hard", world.base)


def test_lines_of_a_child_process_with_an_empty_environment_are_traced(world: World) -> None:
    runner, test = PytestRunner(PytestOptions(pytest=PYTEST)), find_test(world, "tests/test_strong.py")
    plain = runner.run_test(world.room, test)
    traced = runner.run_test(world.room, test, RunOptions(trace=True))
    assert (plain.outcome, plain.lines) == ("pass", {})
    rows = TILL.splitlines()
    traced_rows = {rows[line - 1].strip() for line in traced.lines["till.py"]}
    assert {"return sum(prices)", 'return f"total: {total(prices)}"', "os._exit(0)"} <= traced_rows
    assert not {'raise ValueError("too many")', "return bill(prices)"} & traced_rows


def test_a_fault_that_a_weaker_test_misses_is_refused(world: World) -> None:
    report = compare_edit(world, {"tests/test_strong.py": WEAK}, "tests/test_strong.py")
    missed = report.newly_missed
    assert report.state == "compared" and missed
    finding = report.findings()[0]
    assert (finding.level, finding.path, finding.line) == ("refuse", "till.py", missed[0].line)
    assert finding.old in TILL and finding.new not in TILL


def test_a_stronger_test_catches_more_and_known_runs_are_cached(world: World) -> None:
    cache = ResultCache(str(world.root), "mutation")

    def compare(budget: int | None) -> MutationReport:
        return compare_edit(world, {"tests/test_weak.py": STRONG}, "tests/test_weak.py", cache=cache, budget=budget)

    limited = compare(3)
    assert (limited.runs, len(limited.trials), limited.left) == (3, 1, 1)
    full = compare(None)
    assert full.cached == 3 and full.newly_caught
    assert not full.newly_missed and not full.findings()
    repeated = compare(0)
    assert (repeated.runs, repeated.trials) == (0, full.trials)


def test_an_old_test_that_fails_on_the_new_code_gives_no_finding(world: World) -> None:
    new_code = TILL.replace("total:", "sum:")
    files = {"till.py": new_code, "tests/test_strong.py": STRONG.replace("total:", "sum:")}
    report = compare_edit(world, files, "tests/test_strong.py", n=1)
    assert (report.state, report.trials[0].old, report.findings()) == ("alone", "", [])
    assert "does not pass on this code" in report.reason


def test_all_faults_that_a_new_test_catches_are_newly_caught(world: World) -> None:
    path = "tests/test_strong.py"
    test = TestFunction(id=f"{path}::test_more", ids=[f"{path}::test_more"], path=path, name="test_more")
    text = STRONG + STRONG.replace("test_total", "test_more")
    report = compare_edit(world, {path: text}, test)
    assert (report.state, report.runs) == ("new", 3)
    assert report.newly_caught and report.newly_caught == [trial for trial in report.trials if trial.new == "caught"]


def test_an_unchanged_test_is_not_run(world: World) -> None:
    report = compare_edit(world, {"tests/test_weak.py": STRONG, "till.py": TILL + "\n"}, "tests/test_strong.py")
    assert (report.state, report.runs) == ("same", 0)


def test_python_never_reuses_the_bytecode_of_a_replaced_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from package import part; print(part.x)"]
    for number in ("1", "2", "1"):  # all have the same size and the same second
        replaced_files.write_files(str(tmp_path), {"package/part.py": replaced_files.pack_text(f"x = {number}\n")})
        assert subprocess.check_output(command, cwd=tmp_path, env={}, text=True) == f"{number}\n"
    replaced_files.write_files(str(tmp_path), {"package/part.py": None})
    assert not (tmp_path / "package/part.py").exists()


def test_no_file_is_written_outside_the_work_dir(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="points outside"):
        replaced_files.write_files(str(tmp_path / "work"), {"link/x": replaced_files.pack_text("x")})
