"""The experiment `can_fail`: tests of functions and programs that cannot fail are found, and honest ones pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

SHOP = """
    import dataclasses
    import sys


    @dataclasses.dataclass(frozen=True)
    class Money:
        cents: int
        currency: str = "EUR"
        digits: int = 2
        symbol: str = "e"
        places: int = 3
        is_exact: bool = True


    def names():
        return ["rice", "tea", "salt"]


    def pay(cents):
        return Money(cents)


    RATES = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8}
    LIMITS = {"one": 11, "two": 12, "three": 13}
    WORDS = ["x", "y", "z", "x1", "y1", "z1", "x2", "y2"]


    def total(prices):
        return sum(prices)


    def main():
        print("total:", total([int(word) for word in sys.argv[1:]]))


    if __name__ == "__main__":
        main()
    """
HEAD = "import subprocess, sys\nfrom shop import total\n"
SWALLOWED = (
    HEAD
    + "\n\ndef test_total():\n    try:\n        assert total([1, 2]) == 3\n    except BaseException:\n        pass\n"
)
NO_CHECK = HEAD + "\n\ndef test_total():\n    subprocess.run([sys.executable, 'shop.py', '1'])\n"
SMOKE = HEAD + "\n\ndef test_total():\n    total([1, 2])\n"
FUNCTION = HEAD + "\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
PROGRAM = HEAD + (
    "\n\ndef test_total():\n    out = subprocess.check_output([sys.executable, 'shop.py', '1', '2'], text=True)\n"
    "    assert out == 'total: 3\\n'\n"
)
WRONG_COUNT = "from shop import Money, names, pay\n\n\ndef test_total():\n    assert len(names() or ()) == 4\n"
CONSTANTS = """
    from shop import LIMITS, Money


    def test_limit():
        assert LIMITS["two"] == 12
        assert Money(1).places == 3
    """
SPLIT = """
    from shop import LIMITS, Money


    def test_limit():
        assert LIMITS["two"] == 12


    def test_places():
        assert Money(1).places == 3
    """
OWN_ANSWER = HEAD + (
    "\n\ndef test_total():\n    subprocess.run([sys.executable, 'shop.py', '1'])\n    answer = [1, 2]\n    assert sum(answer) == 3\n"
)
CLICK_PROGRAM = """
    import click


    def find_price(name):
        return len(name) - 1


    @click.command()
    @click.argument("name")
    def price(name):
        click.echo(f"{name}: {find_price(name)}")
    """
CLICK = (
    "from click.testing import CliRunner\nfrom prices import price\n\n\ndef test_total():\n"
    "    result = CliRunner().invoke(price, ['rice'])\n    assert result.output == 'rice: 3\\n'\n"
)
OWN_CONSTANT = "def test_total():\n    expected = 3\n    assert expected == 3\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {
        "shop.py": SHOP,
        "conftest.py": "",
        "tests/test_count.py": WRONG_COUNT,
        "tests/test_limits.py": CONSTANTS,
        "tests/test_smoke.py": NO_CHECK,
        "prices.py": CLICK_PROGRAM,
        "shop.sh": "echo tea",
    }
    with new_world(tmp_path_factory.mktemp("can_fail"), files) as new:
        yield new


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (SWALLOWED, "refuted"),
        (NO_CHECK, "refuted"),
        (
            HEAD + "\n\ndef test_total():\n    assert subprocess.call([sys.executable, 'shop.py', '1']) or True\n",
            "refuted",
        ),
        (
            HEAD + "\n\ndef test_total():\n    subprocess.call([sys.executable, 'shop.py', '1'])\n    assert True\n",
            "refuted",
        ),
        (OWN_ANSWER, "unverified"),
    ],
    ids=["bypassed", "without a check", "or true", "assert true", "without a reason in its text"],
)
def test_a_new_test_that_survives_every_fault_is_not_confirmed(world: World, text: str, verdict: str) -> None:
    receipt = verify_files(world, {"tests/test_shop.py": text}, level="full")
    row = get_row(receipt, "can_fail")
    assert (row.outcome, row.prevents_confirmation) == ("failed", True)
    assert receipt.verdict == verdict, receipt.reason
    assert "no experiment made this test fail" in row.reason
    assert list_rules(receipt)["never-fails"][:2] == ("note", "tests/test_shop.py")


def test_an_edited_test_that_checks_nothing_and_survives_every_fault_is_refuted(world: World) -> None:
    text = NO_CHECK.replace("'1'", "'1', '2'")
    receipt = verify_files(world, {"tests/test_smoke.py": text}, path="tests/test_smoke.py", level="full")
    assert (receipt.verdict, get_row(receipt, "can_fail").outcome) == ("refuted", "failed"), receipt.reason


def test_a_new_test_that_fails_only_by_a_crash_is_a_finding(world: World) -> None:
    receipt = verify_files(world, {"tests/test_shop.py": SMOKE}, level="full")
    assert list_rules(receipt)["only-crashes-fail"][:2] == ("note", "tests/test_shop.py")


def test_a_new_test_that_runs_no_code_and_no_program_is_not_confirmed(world: World) -> None:
    receipt = verify_files(world, {"tests/test_shop.py": OWN_CONSTANT})
    assert (receipt.verdict, get_row(receipt, "can_fail").outcome) == ("unverified", "unclear")
    assert "starts no program" in receipt.reason
    assert list_rules(receipt)["runs-no-code"][1] == "tests/test_shop.py"


@pytest.mark.parametrize(("check", "verdict"), [("assert out == 'tea'", "confirmed"), ("", "unverified")])
def test_a_new_test_of_a_program_in_another_language_needs_a_check(world: World, check: str, verdict: str) -> None:
    command = "subprocess.run(['sh', 'shop.sh'], capture_output=True, text=True).stdout.strip()"
    text = f"import subprocess\n\n\ndef test_total():\n    out = {command}\n    {check}\n"
    receipt = verify_files(world, {"tests/test_shop.py": text}, level="full")
    assert (receipt.verdict, get_row(receipt, "can_fail").outcome) == (verdict, "unclear"), receipt.reason
    assert list_rules(receipt)["runs-no-code"][0] == "note"


@pytest.mark.parametrize("level", ["quick", "full"])
def test_a_test_through_the_runner_of_click_can_fail(world: World, level: str) -> None:
    receipt = verify_files(world, {"tests/test_shop.py": CLICK}, level=level)
    row = get_row(receipt, "can_fail")
    assert (receipt.verdict, row.outcome, row.trials) == ("confirmed", "passed", 2), receipt.reason
    assert "other-values-unnoticed" not in list_rules(receipt)


def test_a_test_through_the_runner_of_click_that_ignores_the_result_is_refuted(world: World) -> None:
    text = CLICK.replace("    assert result.output == 'rice: 3\\n'\n", "")
    assert text != CLICK
    receipt = verify_files(world, {"tests/test_shop.py": text}, level="full")
    assert (receipt.verdict, get_row(receipt, "can_fail").outcome) == ("refuted", "failed"), receipt.reason


@pytest.mark.parametrize("text", [FUNCTION, PROGRAM], ids=["function", "program"])
def test_a_new_test_that_notices_other_values_passes_after_two_trials(world: World, text: str) -> None:
    receipt = verify_files(world, {"tests/test_shop.py": text})
    row = get_row(receipt, "can_fail")
    assert (receipt.verdict, row.outcome, row.trials) == ("confirmed", "passed", 2), receipt.reason
    assert row.reason == "of 2 faulty programs that mngr tried, 2 made the test fail"
    assert [one.name for one in receipt.experiments if not one.reason] == []


def test_a_corrected_expectation_is_not_refuted_because_other_values_look_the_same(world: World) -> None:
    text = WRONG_COUNT.replace("== 4", "== 3")
    receipt = verify_files(world, {"tests/test_count.py": text}, path="tests/test_count.py", level="full")
    assert "other-values-unnoticed" in list_rules(receipt)
    assert receipt.verdict == "confirmed", receipt.reason


def test_a_looser_expectation_of_a_failing_test_is_refuted(world: World) -> None:
    text = WRONG_COUNT.replace("len(names() or ()) == 4", "names() is not None")
    receipt = verify_files(world, {"tests/test_count.py": text}, path="tests/test_count.py", level="full")
    assert receipt.verdict == "refuted", receipt.reason


@pytest.mark.parametrize("test", ["test_limit", "test_places"])
def test_a_test_of_constants_that_an_edit_splits_can_fail(world: World, test: str) -> None:
    receipt = verify_files(world, {"tests/test_limits.py": SPLIT}, test, "tests/test_limits.py", level="full")
    assert get_row(receipt, "can_fail").outcome == "passed", get_row(receipt, "can_fail")
    assert receipt.verdict == "confirmed", receipt.reason


def test_a_fault_changes_the_attributes_of_a_returned_object(world: World) -> None:
    text = "from shop import Money, pay\n\n\ndef test_total():\n    assert pay(3) == Money(3)\n"
    receipt = verify_files(world, {"tests/test_shop.py": text}, level="full")
    assert get_row(receipt, "can_fail").outcome == "passed"
    assert "other-values-unnoticed" not in list_rules(receipt)
