"""The guard on files as they come: damaged at random, large, hostile. It answers, and soon."""

from __future__ import annotations

import random
import time

import pytest

from mngr.tmr.verify.legacy.guard import Contract, weakened
from tests.support.paths import ROOT

TESTS = ROOT / "tests"
FILES = sorted(path for path in TESTS.rglob("*.py") if "corpus" not in path.parts and path.stat().st_size > 500)
SOON = 2.0  # seconds of this process


def _damaged(source: str, chance: random.Random) -> str:
    rows = source.splitlines(keepends=True)
    for _ in range(chance.choice((1, 1, 2, 4))):
        one, two = chance.randrange(len(rows)), chance.randrange(len(rows))
        match chance.randrange(3):
            case 0:
                del rows[one]
            case 1:
                rows.insert(one, rows[two])
            case _:
                rows[one], rows[two] = rows[two], rows[one]
    return "".join(rows)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_gets_an_answer(seed: int) -> None:
    chance = random.Random(seed)
    path = chance.choice(FILES)
    whole = path.read_text()
    damaged = _damaged(whole, chance)
    for old, new in ((whole, damaged), (damaged, whole)):
        start = time.process_time()
        found = weakened(old, new, f"tests/{path.name}", contract=Contract())
        assert time.process_time() - start < SOON
        assert all(finding.level in {"refuse", "note", "justified"} for finding in found)


MANY = """
from shop import price

CASES = [{cases}]


def row(name, coins):
    for word in [name, name, name]:
        assert price(word) == coins
        for other in [name, word]:
            assert price(other + word) != [price(word), price(other), price(name)]


{tests}
"""
ONE = """
def test_{0}():
    for name, coins in CASES:
        row(name + "{0}", coins)
"""


def _many(cases: int) -> str:
    listed = ", ".join(f"('thing{n}', {n})" for n in range(cases))
    return MANY.format(cases=listed, tests="".join(ONE.format(n) for n in range(60)))


def test_a_change_that_every_test_sees_is_compared_within_bounds() -> None:
    old = _many(50)
    start = time.process_time()
    found = weakened(old, _many(49), "tests/test_many.py", contract=Contract())
    assert time.process_time() - start < SOON
    assert found, "it may not pass without a word"


def test_a_helper_that_is_emptied_is_found_where_its_tests_are_too_long() -> None:
    old = _many(50)
    new = old.replace("        assert price(word) == coins\n", "")
    found = weakened(old, new, "tests/test_many.py", contract=Contract())
    assert "refuse" in {finding.level for finding in found}


def test_what_an_edit_cannot_have_touched_is_left_alone() -> None:
    old = _many(50)
    new = old.replace("def test_7():\n", "def test_7():\n    return\n")
    found = weakened(old, new + "\nOTHER = 3\n", "tests/test_many.py", contract=Contract())
    assert {finding.what.split(":")[0].split()[0] for finding in found} == {"test_7"}


PLAIN = "import re\nimport subprocess\nfrom shop import price\n\n\ndef test_it():\n    {}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            f"assert price('a') == '{'a' * 1900}'",
            f"assert re.sub(r'{'[ab]+' * 12}b', '', price('a')) == 'xyz'",
        ),
        (
            "assert subprocess.run('x').returncode == 0",
            f"assert subprocess.run('{'a # ' * 20000}').returncode == 0",
        ),
        ("assert price('a') == ['b', 'a']", "assert sorted(price('a')) == ['a', 'b']"),
    ],
    ids=["pattern", "command", "contract"],
)
def test_what_was_made_to_take_long_does_not(old: str, new: str) -> None:
    contract = Contract(docs={"test_it": "order not " + "- " * 100000 + "order " * 1000})
    start = time.process_time()
    found = weakened(PLAIN.format(old), PLAIN.format(new), "tests/test_shop.py", contract=contract)
    assert time.process_time() - start < SOON
    assert found, "it may not pass without a word"
