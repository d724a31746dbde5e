"""The experiment with new conditions: a condition that the test does not need is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

SHOP = """
    def tax(amount):
        return amount * 19 // 100


    def parse(text):
        return int(text)
    """
TESTS = """
    from shop import parse, tax


    def test_tax():
        assert tax(250) == 48


    def test_parse():
        assert parse("3 coins") == 3
        assert parse("4") == 4
    """


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"shop.py": SHOP, "tests/test_shop.py": TESTS, "conftest.py": ""}
    with new_world(tmp_path_factory.mktemp("conditions"), files) as new:
        yield new


def test_a_condition_that_the_test_does_not_need_is_a_note(world: World) -> None:
    new = "if amount % 100 == 50:\n            return amount * 19 // 100 + 1\n        return amount * 19 // 100"
    receipt = verify_files(world, {"shop.py": SHOP.replace("return amount * 19 // 100", new)}, "test_tax")
    assert receipt.verdict == "confirmed", receipt.reason
    assert list_rules(receipt)["condition-unneeded"] == ("note", "shop.py", 3)
    assert get_row(receipt, "new_conditions").outcome == "failed"


def test_a_condition_that_the_test_needs_is_no_finding(world: World) -> None:
    new = "return int(text[: text.index(' ')]) if ' ' in text else int(text)"
    receipt = verify_files(world, {"shop.py": SHOP.replace("return int(text)", new)}, "test_parse")
    row = get_row(receipt, "new_conditions")
    assert (row.outcome, row.trials) == ("passed", 1), row.reason
    assert "condition-unneeded" not in list_rules(receipt)


def test_a_fix_without_a_condition_is_not_examined(world: World) -> None:
    new = "return (amount * 19 + 50) // 100"
    receipt = verify_files(world, {"shop.py": SHOP.replace("return amount * 19 // 100", new)}, "test_tax")
    assert get_row(receipt, "new_conditions").outcome == "not_examined"
