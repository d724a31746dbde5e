"""Tests a baseline on a suite whose tests disturb each other, end their process, hang or cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.prepare.baseline import BaselinePlan, BaselineRuns, run_baseline
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import TestFunction
from tests.tmr.world import BARE, PYTEST, new_world

pytestmark = pytest.mark.agents

FILES = {
    "shared.py": "is_polluted = False\nnames = []\n",
    "tests/test_polluting.py": """
        import shared

        shared.is_polluted = True


        def test_pollutes():
            assert shared.is_polluted
        """,
    "tests/test_victim.py": """
        import shared


        def test_needs_a_clean_module():
            assert not shared.is_polluted
        """,
    "tests/test_order.py": """
        import shared


        def test_leaves_a_name():
            shared.names.append("x")


        def test_needs_the_name():
            assert shared.names
        """,
    "tests/test_hostile.py": """
        import os
        import sys
        import time

        import pytest


        def test_before():
            pass


        def test_exits():
            os._exit(0)


        def test_between():
            pass


        def test_hangs():
            time.sleep(600)


        def test_writes_50_megabytes():
            for _ in range(50):
                sys.stdout.write("x" * (1 << 20))
            assert False


        @pytest.mark.parametrize("number", [1, 2])
        def test_after(number):
            pass
        """,
    "tests/test_broken.py": "import no_such_module\n\n\ndef test_never():\n    pass\n",
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider -x\npythonpath = .\n",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BaselineRuns]]:
    with new_world(tmp_path_factory.mktemp("suite"), FILES) as world:
        broken_file = TestFunction(
            id="tests/test_broken.py", ids=[], path="tests/test_broken.py", name="test_broken.py"
        )
        tests = [*world.collected.tests, broken_file]
        rooms = CleanRoomPool(world.fleet, "suite", str(world.repo), CleanRoomOptions(env=BARE), at_once=1)
        runner = PytestRunner(PytestOptions(pytest=PYTEST, timeout=4.0))
        yield {
            result.test.name: result
            for result in run_baseline(rooms, world.base, runner, BaselinePlan(tests=tests, timeout=4.0))
        }


def list_seen(result: BaselineRuns) -> list[tuple[str, str]]:
    return [(run.seen, run.outcome) for run in result.runs]


def test_a_test_that_passes_alone_and_fails_in_the_suite_is_its_own_outcome(results: dict[str, BaselineRuns]) -> None:
    result = results["test_needs_a_clean_module"]
    assert result.verdict == "fails_in_suite"
    assert list_seen(result) == [("suite", "fail"), ("suite", "fail"), ("alone", "pass"), ("alone", "pass")]


def test_a_test_that_needs_an_earlier_test_is_its_own_outcome(results: dict[str, BaselineRuns]) -> None:
    result = results["test_needs_the_name"]
    assert result.verdict == "fails_alone"
    assert list_seen(result) == [("suite", "pass"), ("suite", "fail"), ("alone", "fail"), ("alone", "fail")]


def test_a_test_that_ends_its_process_is_reported_and_the_rest_goes_on(results: dict[str, BaselineRuns]) -> None:
    result = results["test_exits"]
    assert result.verdict == "fail" and list_seen(result) == [("suite", "crash"), ("alone", "crash")]
    assert result.runs[0].why == "pytest itself ended during the test: exit code 0"
    for name in ("test_before", "test_between", "test_after"):
        assert list_seen(results[name]) == [("suite", "pass"), ("suite", "pass")]


def test_a_test_that_never_ends_is_reported_with_its_limit(results: dict[str, BaselineRuns]) -> None:
    result = results["test_hangs"]
    assert result.verdict == "fail" and list_seen(result) == [("suite", "timeout"), ("alone", "timeout")]
    assert {run.why for run in result.runs} == {"it did not finish within 4 s"}


def test_a_failure_with_50_megabytes_of_output_is_reported_shortly(results: dict[str, BaselineRuns]) -> None:
    result = results["test_writes_50_megabytes"]
    assert result.verdict == "fail"
    sections = result.runs[0].failures[0].sections
    assert "characters omitted" in sections["Captured stdout call"] and len(str(sections)) < 20_000


def test_a_file_with_an_import_error_is_a_failing_test(results: dict[str, BaselineRuns]) -> None:
    result = results["test_broken.py"]
    assert result.verdict == "fail" and "No module named 'no_such_module'" in result.runs[0].why


def test_durations_come_from_the_runner_and_not_from_the_process(results: dict[str, BaselineRuns]) -> None:
    assert results["test_before"].seconds < 0.1
