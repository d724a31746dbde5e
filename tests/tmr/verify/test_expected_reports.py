"""A run counts only if each parameter of the test reports, nothing else reports, and the process ends as it must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.expected_reports import find_wrong_report, update_ids
from tests.tmr.verify.experiments.claims import commit_files, verify_files, verify_test
from tests.tmr.world import World, new_world

SHOP = "def total(prices):\n    return sum(prices)\n"
ROWS = "[([1], 1), ([2], 2)]"
TESTS = f"""
    import pytest

    from shop import total


    @pytest.mark.parametrize(("prices", "sum_of_prices"), {ROWS})
    def test_each(prices, sum_of_prices):
        assert total(prices) == sum_of_prices
    """
HOOKS = """
    def pytest_collection_modifyitems(config, items):
        import shop

        if not config.option.collectonly:
            del items[:getattr(shop, "dropped", 0)]
    """


def make_test(*ids: str) -> TestFunction:
    return TestFunction(id="t.py::t", ids=list(ids), path="t.py", name="t")


def make_run(*ids: str, exit_code: int = 0, outcome: str = "pass") -> TestRun:
    outcomes = dict.fromkeys(ids, "pass")
    return TestRun(test="t.py::t", outcome=outcome, seconds=1.0, exit_code=exit_code, ids=outcomes, command="pytest")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (make_run("t[1]", "t[2]"), ""),
        (make_run("t[1]"), "t[2] left no result"),
        (make_run("t[1]", "t[2]", "u"), "pytest reported a test that mngr did not start: u"),
        (make_run("t[1]", "t[2]", exit_code=3), "pytest ended with exit code 3, although every test passed"),
        (make_run("t[1]", outcome="fail", exit_code=1), ""),
    ],
)
def test_missing_reports_additional_reports_and_exit_codes_are_wrong(run: TestRun, reason: str) -> None:
    test = make_test("t[1]", "t[2]")
    assert find_wrong_report([make_run("t[1]", "t[2]"), run], {test.id: test}) == reason


def test_mngr_collects_again_only_if_a_run_reported_other_ids() -> None:
    asked: list[list[str]] = []

    def collect(paths: list[str]) -> Sequence[TestFunction]:
        asked.append(paths)
        return [make_test("t[3]")]

    test = make_test("t[1]", "t[2]")
    assert update_ids([test], [make_run("t[1]", "t[2]")], collect) == [test] and asked == []
    assert update_ids([test], [make_run("t[3]")], collect) == [make_test("t[3]")] and asked == [["t.py"]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"shop.py": SHOP, "tests/test_shop.py": TESTS, "conftest.py": HOOKS}
    with new_world(tmp_path_factory.mktemp("reports"), files) as new:
        yield new


@pytest.mark.agents
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("dropped = 1", "tests/test_shop.py::test_each[prices0-1] left no result"),
        ("import atexit, os\natexit.register(os._exit, 3)", "pytest ended with exit code 3"),
    ],
    ids=["missing", "exit code"],
)
def test_a_test_that_passes_with_wrong_reports_is_unverified(world: World, code: str, reason: str) -> None:
    receipt = verify_files(world, {"shop.py": f"{SHOP}\n\n{code}\n"}, "test_each")
    assert receipt.verdict == "unverified"
    assert f"the reports of its runs are wrong: {reason}" in receipt.reason


@pytest.mark.agents
def test_a_claim_that_changes_the_parameters_of_a_test_is_confirmed(world: World) -> None:
    before = world.test("test_each")
    commit = commit_files(world, {"tests/test_shop.py": TESTS.replace(ROWS, "[([1], 1), ([3], 3)]")})
    receipt = verify_test(world, commit, before)
    assert (receipt.verdict, len(before.ids)) == ("confirmed", 2), receipt.reason
    assert receipt.results[0].missing == []
