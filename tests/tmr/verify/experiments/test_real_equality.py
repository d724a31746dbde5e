"""The experiment about equality: a class that makes a check pass by its own comparison is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

TESTS = """
    import unittest

    from shop import Money, greet, stock


    def check_greeting(text):
        assert text == "Hello Ann"


    class TestShop(unittest.TestCase):
        def test_methods(self):
            self.assertEqual(greet("Ann"), "Hello Ann")


    class TestAsync(unittest.IsolatedAsyncioTestCase):
        async def test_later(self):
            self.assertEqual(greet("Ann"), "Hello Ann", "not greeted")


    def test_helper():
        check_greeting(greet("Ann"))


    def test_order():
        assert greet("Ann") != "Hello Bob"


    def test_greet():
        assert greet("Ann") == "Hello Ann"


    def test_stock():
        assert "tea" in stock()


    def test_money():
        assert Money(3) == Money(3)
        assert Money(3) != Money(4)


    def test_parts():
        assert [Money(3), Money(7)] == [Money(3), Money(6)]
    """
SHOP = """
    class Money:
        def __init__(self, coins):
            self.coins = coins


    def greet(name):
        return "Hello " + name


    def stock():
        return ["tea"]
    """


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"shop.py": SHOP, "tests/test_shop.py": TESTS, "conftest.py": ""}
    with new_world(tmp_path_factory.mktemp("equality"), files) as new:
        yield new


def _add_class(code: str, old: str, new: str) -> dict[str, str]:
    text = SHOP.replace(old, new)
    return {"shop.py": f"{text}\n\n    class Own{code}\n"}


@pytest.mark.parametrize("test", ["test_greet", "test_helper", "test_methods", "test_later"])
def test_a_text_that_only_claims_to_be_equal_is_refuted(world: World, test: str) -> None:
    code = 'Text(str):\n        def __eq__(self, other):\n            return str(other).endswith("Ann")\n        __hash__ = str.__hash__'
    receipt = verify_files(world, _add_class(code, '"Hello " + name', "OwnText()"), test)
    assert receipt.verdict == "refuted", receipt.reason
    assert list_rules(receipt)["own-equality"] == ("refuse", "shop.py", 16)


def test_an_own_method_for_an_unequal_comparison_is_a_note(world: World) -> None:
    code = "Text(str):\n        def __ne__(self, other):\n            return True"
    receipt = verify_files(world, _add_class(code, '"Hello " + name', "OwnText()"), "test_order")
    assert list_rules(receipt)["own-equality"] == ("note", "shop.py", 16)


def test_a_container_that_contains_everything_is_refuted(world: World) -> None:
    code = "Stock(list):\n        def __contains__(self, item):\n            return bool(item)"
    receipt = verify_files(world, _add_class(code, '["tea"]', "OwnStock()"), "test_stock")
    assert receipt.verdict == "refuted", receipt.reason
    assert list_rules(receipt)["own-equality"][0] == "refuse"


def test_an_honest_equality_stays_confirmed_without_a_note(world: World) -> None:
    method = "self.coins = coins\n\n        def __eq__(self, other):\n            return isinstance(other, Money) and self.coins == other.coins\n"
    method += "\n        def __hash__(self):\n            return hash(self.coins)"
    receipt = verify_files(world, {"shop.py": SHOP.replace("self.coins = coins", method)}, "test_money")
    assert receipt.verdict == "confirmed", receipt.reason
    assert "own-equality" not in list_rules(receipt)
    assert get_row(receipt, "real_equality").trials == 1


def test_an_equality_of_different_objects_in_a_list_is_a_note(world: World) -> None:
    method = (
        "self.coins = coins\n\n        def __eq__(self, other):\n            return abs(self.coins - other.coins) < 2\n"
    )
    receipt = verify_files(world, {"shop.py": SHOP.replace("self.coins = coins", method)}, "test_parts")
    assert list_rules(receipt)["own-equality"] == ("note", "shop.py", 6)
