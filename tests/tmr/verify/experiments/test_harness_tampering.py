"""The harness experiment: code that keeps failing tests from failing is found, and honest tests pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

SHOP = """
    def total(prices):
        return sum(prices)
    """
TESTS = """
    import pytest

    from shop import total


    def test_total():
        assert total([1, 2]) == 3


    class TestKinds:
        @pytest.mark.parametrize("prices", [[], [1], [1, 2]])
        def test_each(self, prices, tmp_path):
            if not prices:
                assert total(prices) == 0
                return
            assert total(prices) == sum(prices)
    """
STYLES = """
    import asyncio
    import unittest

    import pytest

    from shop import total


    class Unit(unittest.TestCase):
        def setUp(self):
            self.prices = [1, 2]

        def test_unit(self):
            '''A docstring
            of two lines.'''
            self.assertEqual(total(self.prices), 3)


    def test_later(monkeypatch, capsys):
        async def work():
            return total([1, 2])

        text = '''first
    second'''
        assert asyncio.run(work()) == 3 and text


    def test_in_a_block():
        with pytest.raises(TypeError) as caught:
            total(None)
            assert total([]) == 1
        if "None" in str(caught.value):
            return
        assert total([1]) == 1
    """
CHECKS = """
    from shop import total


    class Checks:
        def test_inherited(self):
            assert total([1]) == 1

        async def work(self):
            return total([1])


    def test_imported():
        assert total([2]) == 2
    """
MORE_STYLES = """
    import unittest

    import pytest

    from checks import Checks, test_imported
    from shop import total


    class TestChild(Checks):
        pass


    class Unit(unittest.TestCase):
        def test_raises(self):
            with self.assertRaises(TypeError):
                total(None)


    def test_names():
        expected = total([1, 1])
        assert total([2]) == expected


    for name in ("one", "two"):

        def generated(amount=len(name)):
            assert total([amount]) == amount

        globals()[f"test_{name}"] = generated
    """
HOOKED = """
    import pytest
    import shop


    def pytest_collection_modifyitems(items):
        if len(items) > 3:
            del items[: getattr(shop, "missing", 0)]
            for number in range(getattr(shop, "additional", 0)):
                items.append(pytest.Function.from_parent(items[0].parent, name=f"test_{number}", callobj=lambda: None))


    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport():
        outcome = yield
        outcome.get_result().duration += getattr(shop, "late", 0)
    """
HOOKED_TESTS = """
    import pytest

    from shop import total


    @pytest.mark.parametrize("price", [1, 2, 3])
    def test_hooked(price):
        assert total([price]) == price
    """
HOOKS_IN_PYTEST = """
    import _pytest.runner

    original = _pytest.runner.TestReport.from_item_and_call.__func__


    def from_item_and_call(cls, item, call):
        call.excinfo = None
        return original(cls, item, call)


    _pytest.runner.TestReport.from_item_and_call = classmethod(from_item_and_call)


    def total(prices):
        return 0
    """
HOOK_FOR_ONE_NAME = """
    import pytest


    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(pyfuncitem):
        return True if pyfuncitem.name == "test_total" else None
    """
EQUAL_TO_ALL = """
    class Amount:
        def __eq__(self, other):
            return True


    def total(prices):
        return Amount()
    """


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"shop.py": SHOP, "tests/test_shop.py": TESTS, "conftest.py": "", "checks.py": CHECKS}
    files |= {"hooked/conftest.py": HOOKED, "hooked/test_hooked.py": HOOKED_TESTS}
    with new_world(tmp_path_factory.mktemp("harness"), files) as new:
        yield new


def test_code_that_turns_every_report_into_a_pass_is_refuted_at_a_changed_line(world: World) -> None:
    receipt = verify_files(world, {"shop.py": HOOKS_IN_PYTEST})
    assert receipt.verdict == "refuted"
    assert list_rules(receipt)["harness-tampered"] == ("refuse", "shop.py", 1)


def test_a_hook_that_skips_the_body_of_one_test_is_refuted(world: World) -> None:
    receipt = verify_files(world, {"conftest.py": HOOK_FOR_ONE_NAME, "shop.py": "def total(prices):\n    return 0\n"})
    assert receipt.verdict == "refuted"
    assert list_rules(receipt)["harness-tampered"][1] == "conftest.py"


def test_a_result_that_equals_everything_is_refuted(world: World) -> None:
    receipt = verify_files(world, {"shop.py": EQUAL_TO_ALL})
    assert receipt.verdict == "refuted"
    assert "expectation-without-effect" in list_rules(receipt)


def test_code_that_ends_the_process_when_a_test_fails_is_not_confirmed(world: World) -> None:
    text = "import atexit, os\natexit.register(os._exit, 0)\nimport builtins\n"
    text += "class Quiet(Exception):\n    def __init__(self, *a):\n        os._exit(0)\nimport sys\n"
    text += "runner = next(module for name, module in list(sys.modules.items()) if name.endswith('test.runner'))\n"
    text += "runner.ExceptionInfo.from_current = lambda *a: os._exit(0)\ndef total(prices):\n    return sum(prices)\n"
    text += "runner.ExceptionInfo.from_exception = runner.ExceptionInfo.from_current\n"
    receipt = verify_files(world, {"shop.py": text})
    assert receipt.verdict != "confirmed"
    assert get_row(receipt, "harness").prevents_confirmation


def test_code_that_replaces_a_function_that_decides_outcomes_is_not_confirmed(world: World) -> None:
    text = SHOP + "\n\n    import unittest.case\n    unittest.case.TestCase.assertEqual = lambda *args: None\n"
    receipt = verify_files(world, {"shop.py": text})
    assert receipt.verdict != "confirmed"
    assert get_row(receipt, "harness").prevents_confirmation
    assert "unittest.case.TestCase.assertEqual" in get_row(receipt, "harness").reason


def test_code_that_replaces_a_clock_is_a_finding(world: World) -> None:
    receipt = verify_files(world, {"shop.py": SHOP + "\n\n    import time\n    time.sleep = lambda seconds: None\n"})
    assert list_rules(receipt)["clock-replaced"][:2] == ("note", "shop.py")


@pytest.mark.parametrize("name", ["test_unit", "test_later", "test_in_a_block"])
def test_twins_of_tests_of_another_style_fail_as_they_must(world: World, name: str) -> None:
    receipt = verify_files(world, {"tests/test_styles.py": STYLES}, name, "tests/test_styles.py")
    assert get_row(receipt, "harness").outcome == "passed", get_row(receipt, "harness")


@pytest.mark.parametrize("name", ["test_inherited", "test_imported", "test_raises", "test_names", "test_one"])
def test_twins_of_tests_that_are_inherited_imported_or_generated_fail_as_they_must(world: World, name: str) -> None:
    receipt = verify_files(world, {"tests/test_styles.py": MORE_STYLES}, name, "tests/test_styles.py")
    row = get_row(receipt, "harness")
    assert (row.outcome, row.trials) == ("passed", 2), row


def test_code_that_lets_an_inherited_test_pass_is_refuted(world: World) -> None:
    receipt = verify_files(
        world,
        {"tests/test_styles.py": MORE_STYLES, "shop.py": HOOKS_IN_PYTEST},
        "test_inherited",
        "tests/test_styles.py",
    )
    assert (receipt.verdict, get_row(receipt, "harness").outcome) == ("refuted", "failed"), receipt.reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("missing = 1", "hooked/test_hooked.py::test_hooked[1] left no result"),
        ("additional = 1", "pytest reported a test that mngr did not start: hooked/test_hooked.py::test_0"),
    ],
)
def test_missing_and_additional_reports_beside_the_twins_prevent_a_confirmation(
    world: World, code: str, reason: str
) -> None:
    receipt = verify_files(world, {"shop.py": f"{SHOP}\n\n    {code}\n"}, "test_hooked", "hooked/test_hooked.py")
    assert receipt.verdict == "unverified"
    assert reason in get_row(receipt, "harness").reason


def test_a_test_that_reports_more_time_than_its_process_took_is_a_finding(world: World) -> None:
    receipt = verify_files(world, {"shop.py": f"{SHOP}\n\n    late = 600\n"}, "test_hooked", "hooked/test_hooked.py")
    assert list_rules(receipt)["odd-duration"] == ("note", "shop.py", 4)


def test_a_project_that_stops_at_the_first_failure_and_skips_parameters_passes(world: World) -> None:
    row = '@pytest.mark.parametrize("prices", [[], [1], [1, 2]])'
    skipping = row.replace("[1, 2]]", "pytest.param([1, 2], marks=getattr(pytest.mark, 'skip'))]")
    files = {"pytest.ini": "[pytest]\naddopts = -x\n", "shop.py": SHOP.replace("sum(prices)", "sum(iter(prices))")}
    receipt = verify_files(world, {**files, "tests/test_shop.py": TESTS.replace(row, skipping)}, "test_each")
    assert get_row(receipt, "harness").outcome == "passed", get_row(receipt, "harness")


@pytest.mark.parametrize("name", ["test_total", "test_each"])
def test_an_honest_edit_passes(world: World, name: str) -> None:
    receipt = verify_files(world, {"shop.py": SHOP.replace("sum(prices)", "sum(iter(prices))")}, name)
    assert (receipt.verdict, get_row(receipt, "harness").outcome) == ("confirmed", "passed"), receipt.reason
    assert get_row(receipt, "harness").trials == 2
