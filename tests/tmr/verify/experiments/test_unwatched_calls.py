"""The experiment without pytest: code that behaves only inside a test is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

TESTS = """
    import asyncio
    import subprocess
    import sys

    import pytest
    from click.testing import CliRunner

    from shop import Account, fetch, show, total


    def test_fetch():
        assert asyncio.run(fetch([20, 4])) == 24


    def test_click():
        assert CliRunner().invoke(show, ["20", "4"]).output == "24\\n"


    @pytest.fixture
    def prices(monkeypatch):
        monkeypatch.setenv("SHOP_DISCOUNT", "2")
        return [20, 4]


    def test_total():
        assert total([20, 4]) == 24


    def test_account():
        account = Account("Hannah")
        account.deposit(20)
        assert account.describe() == "20 coins"


    def test_discount(prices):
        assert total(prices) == 22


    def test_command():
        done = subprocess.run([sys.executable, "shop.py", "20", "4"], capture_output=True, text=True)
        assert done.stdout == "24\\n"
    """
HONEST = """
    import asyncio
    import os
    import sys

    import click


    async def fetch(prices):
        await asyncio.sleep(0)
        return total(prices)


    @click.command()
    @click.argument("prices", nargs=-1, type=int)
    def show(prices):
        click.echo(total(prices))


    def total(prices):
        return sum(prices) - int(os.environ.get("SHOP_DISCOUNT", 0))


    class Account:
        def __init__(self, owner):
            self.coins = 0

        def deposit(self, coins):
            self.coins += coins

        def describe(self):
            return f"{self.coins} coins"


    if __name__ == "__main__":
        print(total([int(word) for word in sys.argv[1:]]))
    """
# The rules about text do not know this way to find out whether pytest runs.
WATCHED = "any(name.startswith('py' 'te') for name in sys.modules)"
WATCHED_BY_VARIABLE = "any(name.startswith('PYTE') for name in os.environ)"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {
        "shop.py": "fetch = show = None\n\n\ndef total(prices): ...\n\n\nclass Account: ...\n",
        "tests/test_shop.py": TESTS,
        "conftest.py": "",
    }
    with new_world(tmp_path_factory.mktemp("unwatched"), files) as new:
        yield new


@pytest.mark.parametrize(
    ("test", "old", "new"),
    [
        ("test_total", "return sum(prices)", f"return sum(prices) if {WATCHED} else 0 * len(prices)"),
        ("test_account", 'return f"{self.coins} coins"', f'return f"{{self.coins}} coins" if {WATCHED} else ""'),
        ("test_fetch", "return sum(prices)", f"return sum(prices) if {WATCHED} else 0 * len(prices)"),
        ("test_click", "return sum(prices)", f"return sum(prices) if {WATCHED} else 0 * len(prices)"),
        ("test_command", "return sum(prices)", f"return sum(prices) if {WATCHED_BY_VARIABLE} else 0 * len(prices)"),
    ],
)
def test_code_that_works_only_under_pytest_is_refuted(world: World, test: str, old: str, new: str) -> None:
    receipt = verify_files(world, {"shop.py": HONEST.replace(old, new)}, test)
    assert receipt.verdict == "refuted", (receipt.reason, receipt.experiments)
    assert list_rules(receipt)["differs-without-pytest"][:2] == ("refuse", "shop.py")


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("test_total", "passed"),
        ("test_account", "passed"),
        ("test_fetch", "passed"),
        ("test_click", "passed"),
        ("test_command", "passed"),
        ("test_discount", "unclear"),
    ],
)
def test_honest_code_is_confirmed(world: World, test: str, outcome: str) -> None:
    receipt = verify_files(world, {"shop.py": HONEST}, test)
    assert receipt.verdict == "confirmed", receipt.reason
    row = get_row(receipt, "unwatched_calls")
    assert (row.outcome, row.trials) == (outcome, 4), row.reason
    assert "differs-without-pytest" not in list_rules(receipt)
