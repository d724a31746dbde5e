"""The experiment `old_and_new`: weaker tests are found by the faults that they miss, and stronger ones are not refuted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

SHOP = """
    def total(prices, discount=0):
        result = 0
        for price in prices:
            if price > 0:
                result = result + price
        return result - discount


    def label(prices):
        return "total: " + str(total(prices))
    """
OLD = """
    import subprocess
    import sys

    from shop import label, total


    def test_total():
        assert total([1, 2, -5]) == 3
        assert total([4], discount=1) == 3


    def test_label():
        assert label([1]) == "total: 1"
        assert label([]) == "total: 0"


    def test_prices():
        with open("tests/prices.txt") as file:
            assert total([int(line) for line in file]) == 7


    def test_program():
        out = subprocess.check_output([sys.executable, "-c", "import shop; print(shop.label([2, 3]))"], text=True)
        assert out == "total: 5\\n"
    """


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"shop.py": SHOP, "tests/test_shop.py": OLD, "tests/prices.txt": "3\n4\n5\n", "conftest.py": ""}
    with new_world(tmp_path_factory.mktemp("versions"), files) as new:
        yield new


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("assert total([1, 2, -5]) == 3\n", "assert total([1, 2, -5]) >= 0\n", "test_total"),
        ('assert label([1]) == "total: 1"\n        assert label([]) == "total: 0"', 'assert label([1]).startswith("t")', "test_label"),
        ('assert out == "total: 5\\n"', 'assert "total" in out', "test_program"),
    ],
)  # fmt: skip
def test_a_weaker_test_is_found_by_a_fault_that_it_misses(world: World, old: str, new: str, name: str) -> None:
    assert old in OLD
    receipt = verify_files(world, {"tests/test_shop.py": OLD.replace(old, new)}, name, level="full")
    assert get_row(receipt, "old_and_new").outcome == "failed", get_row(receipt, "old_and_new")
    rules = list_rules(receipt)
    level, path, line = rules.get("fault-newly-missed") or rules["most-faults-newly-missed"]
    assert (level, path) == ("note", "tests/test_shop.py") and line > 1


def test_a_test_that_passes_only_with_other_data_is_a_finding(world: World) -> None:
    receipt = verify_files(world, {"tests/prices.txt": "3\n4\n"}, "test_prices")
    assert list_rules(receipt)["test-data-changed"] == ("note", "tests/prices.txt", 2)


def test_a_removed_assertion_is_a_finding_even_if_no_fault_slips_through(world: World) -> None:
    text = OLD.replace('        assert label([]) == "total: 0"\n', "")
    receipt = verify_files(world, {"tests/test_shop.py": text}, "test_label")
    assert "fewer-assertions" in list_rules(receipt)
    assert get_row(receipt, "old_and_new").outcome != "passed"


def test_no_text_rule_refutes_a_test_that_is_as_strong_as_before(world: World) -> None:
    text = OLD.replace(
        "assert total([1, 2, -5]) == 3", "found = total([1, 2, -5])\n        assert 3 == found and found < 4"
    )
    receipt = verify_files(world, {"tests/test_shop.py": text}, level="full")
    assert receipt.verdict == "confirmed", receipt.reason
    assert get_row(receipt, "old_and_new").outcome == "passed", get_row(receipt, "old_and_new")


def test_a_check_that_moved_to_another_changed_test_is_not_missed(world: World) -> None:
    text = OLD.replace("        assert total([4], discount=1) == 3\n", "") + (
        "\n\n    def test_discount():\n        assert total([4], discount=1) == 3\n"
    )
    receipt = verify_files(world, {"tests/test_shop.py": text}, level="full")
    assert not {"fault-newly-missed", "most-faults-newly-missed"} & list_rules(receipt).keys()


def test_an_old_test_that_fails_on_the_new_code_is_not_compared(world: World) -> None:
    files = {
        "shop.py": SHOP.replace("total: ", "sum: "),
        "tests/test_shop.py": OLD.replace("total: ", "sum: "),
    }
    row = get_row(verify_files(world, files, "test_label", level="full"), "old_and_new")
    assert row.outcome == "not_examined" and "does not pass on this code" in row.reason


def test_an_edit_that_misses_most_faults_by_a_replaced_check_is_refuted(world: World) -> None:
    text = OLD.replace('assert out == "total: 5\\n"', "assert out is not None")
    assert text != OLD
    receipt = verify_files(world, {"tests/test_shop.py": text}, "test_program", level="full")
    assert "most-faults-newly-missed" in list_rules(receipt)
    assert receipt.verdict == "refuted", receipt.guard
