"""Tests a baseline with a test that kills its runner, and with a passing test that writes much output."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.prepare.baseline import BaselinePlan, BaselineRuns, run_baseline
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from tests.tmr.world import BARE, PYTEST, new_world

pytestmark = pytest.mark.agents

FILES = {
    "tests/test_bad.py": """
        import os
        import signal
        import sys


        def test_before():
            pass


        def test_kills_its_runner():
            os.kill(os.getpid(), signal.SIGKILL)


        def test_writes_50_megabytes():
            for _ in range(50):
                sys.stdout.write("x" * (1 << 20))
                os.write(2, b"y" * (1 << 20))


        def test_after():
            pass
        """,
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\n",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BaselineRuns]]:
    with new_world(tmp_path_factory.mktemp("bad"), FILES) as world:
        rooms = CleanRoomPool(world.fleet, "bad", str(world.repo), CleanRoomOptions(env=BARE), at_once=1)
        runner = PytestRunner(PytestOptions(pytest=PYTEST))
        plan = BaselinePlan(tests=world.collected.tests)
        yield {result.test.name: result for result in run_baseline(rooms, world.base, runner, plan)}


def test_a_test_that_kills_its_runner_is_reported_and_the_rest_goes_on(results: dict[str, BaselineRuns]) -> None:
    result = results["test_kills_its_runner"]
    assert result.verdict == "fail"
    assert [(run.seen, run.outcome) for run in result.runs] == [("suite", "crash"), ("alone", "crash")]
    assert result.runs[0].why == "pytest itself ended during the test: signal 9"
    for name in ("test_before", "test_after"):
        assert [(run.seen, run.outcome) for run in results[name].runs] == [("suite", "pass"), ("suite", "pass")]


def test_a_passing_test_with_50_megabytes_of_output_passes_and_keeps_little_of_it(
    results: dict[str, BaselineRuns],
) -> None:
    result = results["test_writes_50_megabytes"]
    assert result.verdict == "pass"
    assert [(run.seen, run.outcome) for run in result.runs] == [("suite", "pass"), ("suite", "pass")]
    assert len(str(result.runs)) < 20_000
