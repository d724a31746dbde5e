"""Faults in the code that a test runs, in real rooms: which lines those are, and what two versions of a test see of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.testkit.contract.program import run_git
from mngr.tmr.cleanroom import replaced_files
from mngr.tmr.cleanroom.test_run import TestFunction, run_test
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.mutation import MutationReport, compare_versions
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


def in_file(world: World, path: str) -> TestFunction:
    return next(test for test in world.collected.tests if test.path == path)


def edited(
    world: World,
    files: dict[str, str],
    test: str | TestFunction,
    n: int = 2,
    shelf: ResultCache | None = None,
    budget: int | None = None,
) -> MutationReport:
    """What the faults say about one edit of a test."""
    commit = world.write(files)
    test = in_file(world, test) if isinstance(test, str) else test
    try:
        return compare_versions(
            world.rooms, PYTEST, test, base=world.base, commit=commit, n=n, timeout=30.0, cache=shelf, budget=budget
        )  # fmt: skip
    finally:
        run_git(world.repo, "reset", "-q", "--hard", world.base)


def test_lines_of_a_program_in_an_environment_of_its_own_are_seen(world: World) -> None:
    plain = run_test(world.room, PYTEST, in_file(world, "tests/test_strong.py"))
    traced = run_test(world.room, PYTEST, in_file(world, "tests/test_strong.py"), trace=True)
    assert (plain.outcome, plain.lines) == ("pass", {})
    rows = TILL.splitlines()
    seen = {rows[line - 1].strip() for line in traced.lines["till.py"]}
    assert {"return sum(prices)", 'return f"total: {total(prices)}"', "os._exit(0)"} <= seen
    assert not {'raise ValueError("too many")', "return bill(prices)"} & seen


def test_what_a_weaker_test_misses_is_named(world: World) -> None:
    found = edited(world, {"tests/test_strong.py": WEAK}, "tests/test_strong.py")
    missed = found.newly_missed
    assert found.state == "compared" and missed
    finding = found.findings()[0]
    assert (finding.level, finding.path, finding.line) == ("refuse", "till.py", missed[0].line)
    assert finding.old in TILL and finding.new not in TILL


def test_what_a_stronger_test_catches_is_named_and_nothing_is_run_twice(world: World) -> None:
    shelf = ResultCache(str(world.root), "mutation")

    def ask(budget: int | None) -> MutationReport:
        return edited(world, {"tests/test_weak.py": STRONG}, "tests/test_weak.py", shelf=shelf, budget=budget)

    begun = ask(3)
    assert (begun.runs, len(begun.trials), begun.left) == (3, 1, 1)
    found = ask(None)
    assert found.cached == 3 and found.newly_caught
    assert not found.newly_missed and not found.findings()
    again = ask(0)
    assert (again.runs, again.trials) == (0, found.trials)


def test_an_old_test_that_fails_on_the_new_code_accuses_nobody(world: World) -> None:
    said = TILL.replace("total:", "sum:")
    files = {"till.py": said, "tests/test_strong.py": STRONG.replace("total:", "sum:")}
    found = edited(world, files, "tests/test_strong.py", n=1)
    assert (found.state, found.trials[0].old, found.findings()) == ("alone", "", [])
    assert "does not pass on this code" in found.reason


def test_all_that_a_new_test_catches_is_newly_caught(world: World) -> None:
    path = "tests/test_strong.py"
    test = TestFunction(id=f"{path}::test_more", ids=[f"{path}::test_more"], path=path, name="test_more")
    more = STRONG + STRONG.replace("test_total", "test_more")
    found = edited(world, {path: more}, test)
    assert (found.state, found.runs) == ("new", 3)
    assert found.newly_caught and found.newly_caught == [one for one in found.trials if one.new == "caught"]


def test_a_test_that_nobody_changed_is_not_run(world: World) -> None:
    found = edited(world, {"tests/test_weak.py": STRONG, "till.py": TILL + "\n"}, "tests/test_strong.py")
    assert (found.state, found.runs) == ("same", 0)


def test_python_never_takes_one_text_of_a_file_for_another(tmp_path: Path) -> None:
    ask = [sys.executable, "-c", "from package import part; print(part.x)"]
    for number in ("1", "2", "1"):  # of one size, in one second
        replaced_files.write_files(str(tmp_path), {"package/part.py": replaced_files.pack_text(f"x = {number}\n")})
        assert subprocess.check_output(ask, cwd=tmp_path, env={}, text=True) == f"{number}\n"
    replaced_files.write_files(str(tmp_path), {"package/part.py": None})
    assert not (tmp_path / "package/part.py").exists()


def test_no_file_is_written_outside(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="leads out of"):
        replaced_files.write_files(str(tmp_path / "work"), {"link/x": replaced_files.pack_text("x")})
