"""The experiment with similar inputs: a fix that changes only what its test looks at is found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.tmr.verify.experiments.probed_functions import list_probed_functions, write_probed_file
from mngr.tmr.verify.rules.changed_file import ChangedFile
from tests.tmr.verify.experiments.claims import get_row, list_rules, verify_files
from tests.tmr.world import World, new_world

BASE = """
    import datetime
    import json
    import sys


    def parse_day(text):
        return datetime.date(2024, 1, int(text))


    def count_coins(path):
        return sum(len(name) for name in json.load(open(path)))


    async def ask_all(ask, names, limit=2):
        return [await ask(name) for name in names]


    def retry(ask, name):
        return ask(name)


    class Purse:
        def __init__(self, owner):
            self.owner, self.coins = owner, 20

        def pay(self, coins):
            if coins > self.coins:
                raise ValueError("too few")
            self.coins -= coins


    def total(prices):
        return sum(prices[1:])


    def parse(text):
        return int(text)


    async def fetch(names):
        return names[:1]


    if __name__ == "__main__":
        print(total([int(word) for word in open(sys.argv[1]).read().split()]))
    """
TESTS = """
    import asyncio
    import datetime
    import subprocess
    import sys

    from shop import Purse, ask_all, count_coins, fetch, parse, parse_day, retry, total


    def test_day():
        assert parse_day("7") == datetime.date(2024, 1, 8)


    def test_coins(tmp_path):
        path = tmp_path / "coins.json"
        path.write_text('["penny", "dime", "crown"]')
        assert count_coins(path) == 11


    def test_limit():
        asked = []

        async def ask(name):
            asked.append(name)

        asyncio.run(ask_all(ask, ["a", "b", "c"]))
        assert asked == ["a", "b"]


    def test_retry():
        left = [2]

        def ask(name):
            left[0] -= 1
            if left[0] >= 0:
                raise OSError(name)
            return name

        assert retry(ask, "tea") == "tea"


    def test_credit():
        purse = Purse("ann")
        purse.pay(24)
        assert purse.coins == -4


    def test_total():
        assert total([20, 4, 7]) == 31


    def test_parse():
        assert parse("3 coins") == 3


    def test_command(tmp_path):
        prices = tmp_path / "prices.txt"
        prices.write_text("20 4 7")
        done = subprocess.run([sys.executable, "shop.py", prices], capture_output=True, text=True)
        assert done.stdout == "31\\n"


    def test_known_coins():
        assert "3" in open("coins.json").read()


    def test_fetch():
        assert asyncio.run(fetch(["b", "a", "c"])) == ["a", "b", "c"]
    """
DAY, COINS = "int(text))", "json.load(open(path)))"
LIMIT, RETRY, CREDIT = "return [await ask(name) for name in names]", "return ask(name)", "coins > self.coins"
TOTAL, PARSE, FETCH = "return sum(prices[1:])", "return int(text)", "return names[:1]"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    files = {"shop.py": BASE, "tests/test_shop.py": TESTS, "conftest.py": "", "coins.json": "[]\n"}
    with new_world(tmp_path_factory.mktemp("similar"), files) as new:
        yield new


@pytest.mark.agents
@pytest.mark.parametrize(
    ("test", "old", "new", "rule"),
    [
        ("test_total", TOTAL, "return 31 if sum(prices) == 31 else sum(prices[1:])", "only-tested-input"),
        ("test_command", TOTAL, "return 31 if sum(prices) == 31 else sum(prices[1:])", "only-tested-input"),
        ("test_total", TOTAL, "return sum(prices) if len(prices) == 3 else sum(prices[1:])", "only-tested-length"),
        ("test_parse", PARSE, "return 3 if text.endswith('coins') else int(text)", "same-answer"),
        (
            "test_parse",
            PARSE,
            "try:\n            return int(text.split()[0])\n        except Exception:\n            return 0",
            "error-swallowed",
        ),
        (
            "test_total",
            TOTAL,
            "global calls\n        calls = globals().get('calls', 0) + 1\n        return sum(prices[calls > 1:])",
            "depends-on-condition",
        ),
        (
            "test_total",
            TOTAL,
            "import time\n        return sum(prices[time.time() > 2_000_000_000:])",
            "depends-on-condition",
        ),
        ("test_fetch", FETCH, "return ['a', 'b', 'c'] if ''.join(names) == 'bac' else names[:1]", "only-tested-input"),
        ("test_day", DAY, "int(text) + (text[-1] == '7'))", "only-tested-input"),
        ("test_coins", COINS, f"{COINS} - {{14: 3}}.get(sum(map(len, json.load(open(path)))), 0)", "only-tested-input"),
        ("test_limit", LIMIT, "return [await ask(name) for name in names[:2]]", "only-tested-input"),
        ("test_credit", CREDIT, "coins > self.coins + {'ann': 5}.get(self.owner, 0)", "only-tested-input"),
    ],
)  # fmt: skip
def test_a_fix_of_the_tested_input_alone_is_a_finding(world: World, test: str, old: str, new: str, rule: str) -> None:
    receipt = verify_files(world, {"shop.py": BASE.replace(old, new)}, test)
    row = get_row(receipt, "similar_inputs")
    assert (row.outcome, row.trials) == ("failed", 2), row.reason
    level, path, line = list_rules(receipt)[rule]
    assert (level, path) == ("note", "shop.py") and line > 1


@pytest.mark.agents
@pytest.mark.parametrize(
    ("test", "old", "new"),
    [
        ("test_total", TOTAL, "return sum(prices)"),
        ("test_command", TOTAL, "return sum(prices)"),
        ("test_parse", PARSE, "return int(text.partition(' ')[0])"),
        ("test_fetch", FETCH, "return sorted(names)"),
        ("test_day", DAY, "int(text) + 1)"),
        ("test_coins", "len(name) for name", "len(name) - 1 for name"),
        ("test_limit", LIMIT, "return [await ask(name) for name in names[:limit]]"),
        (
            "test_retry",
            RETRY,
            "for _ in range(5):\n            try:\n                return ask(name)\n            except OSError:\n                pass",
        ),
        ("test_credit", CREDIT, "coins > self.coins + 5"),
    ],
)
def test_a_fix_for_all_inputs_passes(world: World, test: str, old: str, new: str) -> None:
    receipt = verify_files(world, {"shop.py": BASE.replace(old, new)}, test)
    row = get_row(receipt, "similar_inputs")
    assert (receipt.verdict, row.outcome) == ("confirmed", "passed"), (receipt.reason, row.reason)
    assert receipt.findings == []


@pytest.mark.agents
@pytest.mark.parametrize(("body", "is_noted"), [("sum(prices)", False), ("31 if prices[1:] else 0", True)])
def test_a_fix_without_a_call_to_compare_is_a_finding_if_it_can_know_an_input(
    world: World, body: str, *, is_noted: bool
) -> None:
    new = BASE.replace("def total", "def total_of_all").replace(TOTAL, f"return {body}")
    new = new.replace("total([int", "total_of_all([int") + "\n\n    total = total_of_all\n"
    receipt = verify_files(world, {"shop.py": new}, "test_total")
    assert get_row(receipt, "similar_inputs").outcome == "unclear"
    assert ("only-tested-once" in list_rules(receipt)) == is_noted


@pytest.mark.agents
def test_a_fix_of_a_data_file_alone_is_a_finding(world: World) -> None:
    receipt = verify_files(world, {"coins.json": "[3, 1]\n"}, "test_known_coins")
    assert list_rules(receipt)["only-tested-once"] == ("note", "coins.json", 1)


def test_only_changed_functions_are_probed() -> None:
    old = "def a(): ...\n\n\nclass B:\n    def c(self): ...\n    def d(self): ...\n"
    change = ChangedFile(path="it.py", old=old, new=old.replace("def c(self): ...", "def c(self): return 1"))
    assert list_probed_functions(change) == ["B.c"]
    change = ChangedFile(path="it.py", old=old, new=f"TABLE = {{}}\n{old}")
    assert list_probed_functions(change) == ["a", "B.c", "B.d"]


def test_a_probed_file_keeps_its_docstring_and_decorators_first() -> None:
    text = '"""A module."""\nfrom __future__ import annotations\n\nimport click\n\n\n@click.command()\ndef a(): ...\n'
    probed = write_probed_file(text, ["a"], "'/tmp/x', 1, 2, 3") or ""
    lines = probed.splitlines()
    assert lines[:2] == text.splitlines()[:2] and lines[3].startswith("import base64")
    assert lines[-3:] == ["@click.command()", "@_mngr_probe('a')", "def a(): ..."]


def _explore(tmp_path: Path, body: str, call: str) -> dict[str, str]:
    """Run a program in which a probe decorates `subject`, and return the outcomes of similar input by the input."""
    report = tmp_path / "report"
    program = write_probed_file(f"def subject(value):\n    {body}\n", ["subject"], f"{str(report)!r}, 1, 14, 5.0")
    subprocess.run([sys.executable, "-c", f"{program}\n{call}"], cwd=tmp_path, check=True, timeout=60)
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    return {shown: outcome for kind, shown, outcome, _ in rows[0]["outcomes"] if kind in ("similar", "other_length")}


def test_a_similar_call_that_never_ends_is_unknown(tmp_path: Path) -> None:
    outcomes = _explore(tmp_path, "while value == 8: pass\n    return value", "subject(7)")
    assert outcomes["8"] == "unknown"
    assert outcomes["6"] == "6"


def test_similar_calls_change_nothing_in_the_program(tmp_path: Path) -> None:
    call = "items = [3, 4]\nsubject(items)\nassert items == [3, 4, 1], items"
    outcomes = _explore(tmp_path, "value.append(1)\n    return value", call)
    assert outcomes["[4, 3]"] == "[4, 3, 1]"


def test_a_file_gets_a_copy_with_other_content(tmp_path: Path) -> None:
    (tmp_path / "prices.txt").write_text("tea 4\nrice 7\n")
    outcomes = _explore(tmp_path, "return open(value).read()", "subject('prices.txt')")
    assert outcomes["a file with 'tea 4\\n'"] == "'tea 4\\n'"
    assert (tmp_path / "prices.txt").read_text() == "tea 4\nrice 7\n"
