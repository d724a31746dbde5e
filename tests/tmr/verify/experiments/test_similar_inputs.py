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
    import sys


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
    import subprocess
    import sys

    from shop import fetch, parse, total


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
    ],
)
def test_a_fix_for_all_inputs_passes(world: World, test: str, old: str, new: str) -> None:
    receipt = verify_files(world, {"shop.py": BASE.replace(old, new)}, test)
    row = get_row(receipt, "similar_inputs")
    assert (receipt.verdict, row.outcome) == ("confirmed", "passed"), (receipt.reason, row.reason)
    assert receipt.findings == []


@pytest.mark.agents
def test_a_fix_without_a_call_to_compare_is_a_finding(world: World) -> None:
    new = BASE.replace("def total", "def total_of_all").replace(TOTAL, "return sum(prices)")
    new = new.replace("total([int", "total_of_all([int") + "\n\n    total = total_of_all\n"
    receipt = verify_files(world, {"shop.py": new}, "test_total")
    assert get_row(receipt, "similar_inputs").outcome == "unclear"
    assert list_rules(receipt)["only-tested-once"][:2] == ("note", "shop.py")


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
    return {shown: outcome for kind, shown, outcome in rows[0]["outcomes"] if kind in ("similar", "other_length")}


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
