"""The rules about one test file, old against new: rules, lines and levels."""

from __future__ import annotations

import random
import textwrap
import time

import pytest

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.weakened_tests import list_weakenings_of_file
from tests.support.paths import ROOT

HEAD = "import pytest\nfrom mngr.e2e import expect\nfrom shop import price\n"
OLD = """
def test_it(e2e):
    result = e2e.run("shop price rice")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice costs 3")
"""
FILES = sorted(
    path for path in (ROOT / "tests").rglob("*.py") if "corpus" not in path.parts and path.stat().st_size > 500
)
MARK = "skip"
MAX_SECONDS = 2.0  # of processor time


def _compare(old: str, new: str, only_test: str = "") -> list[Finding]:
    before, after = (HEAD + textwrap.dedent(text) for text in (old, new))
    return list_weakenings_of_file(before, after, "tests/test_shop.py", only_test)


def _levels(old: str, new: str) -> dict[str, str]:
    return {finding.rule: finding.level for finding in _compare(old, new)}


# Removed checks


def test_a_removed_check_is_refused_with_its_old_line() -> None:
    new = OLD.replace('    expect(result.stdout).to_equal("rice costs 3")\n', "")
    (finding,) = _compare(OLD, new)
    assert (finding.rule, finding.level, finding.line) == ("check-removed", "refuse", 8)


def test_a_replaced_check_is_a_note_with_both_texts() -> None:
    (finding,) = _compare(OLD, OLD.replace('to_equal("rice costs 3")', 'to_contain("rice")'))
    assert (finding.rule, finding.level, finding.line) == ("check-replaced", "note", 8)
    assert finding.old == "expect(result.stdout).to_equal('rice costs 3')"
    assert finding.new == "expect(result.stdout).to_contain('rice')"


def test_a_stronger_check_in_place_of_a_weak_one_is_not_refused() -> None:
    old = "def test_it():\n    assert price('rice')\n    assert isinstance(price('rice'), int)\n"
    assert _levels(old, "def test_it():\n    assert price('rice') == 3\n") == {"check-replaced": "note"}


def test_a_check_that_an_equality_implies_may_go() -> None:
    old = "def test_it():\n    out = price('rice')\n    assert 'r' in out\n    assert out == 'rice: 3'\n"
    assert _levels(old, old.replace("    assert 'r' in out\n", "")) == {"check-redundant": "note"}


def test_a_check_that_moves_into_a_called_helper_is_kept() -> None:
    new = """
    def shown(result, text):
        expect(result).to_succeed()
        expect(result.stdout).to_equal(text)

    def test_it(e2e):
        shown(e2e.run("shop price rice"), "rice costs 3")
    """
    assert "refuse" not in _levels(OLD, new).values()


def test_an_emptied_helper_is_refused() -> None:
    old = "def ok(x):\n    assert x == 3\n\ndef test_it():\n    ok(price('rice'))\n"
    assert _levels(old, old.replace("assert x == 3", "return x"))["check-removed"] == "refuse"


def test_removed_rows_of_data_are_refused_and_unrolled_ones_are_not() -> None:
    old = """
    @pytest.mark.parametrize(("thing", "coins"), [("rice", 3), ("jam", 4)])
    def test_it(thing, coins):
        assert price(thing) == coins
    """
    assert _levels(old, old.replace(', ("jam", 4)', ""))["rows-removed"] == "refuse"
    unrolled = "def test_it():\n    assert price('jam') == 4\n    assert price('rice') == 3\n"
    assert "refuse" not in _levels(old, unrolled).values()


def test_a_test_that_pytest_no_longer_collects_is_refused() -> None:
    (finding,) = _compare(
        OLD, OLD.replace("def test_it", "def _test_it").replace("    expect(result).to_succeed()\n", "")
    )
    assert (finding.rule, finding.level) == ("test-removed", "refuse")


def test_a_renamed_test_is_a_note() -> None:
    assert _levels(OLD, OLD.replace("test_it", "test_price").replace("result", "shown")) == {"test-replaced": "note"}


def test_a_deleted_file_takes_its_tests_along() -> None:
    (finding,) = list_weakenings_of_file(HEAD + OLD, None, "tests/test_shop.py")
    assert (finding.rule, finding.level) == ("test-removed", "refuse")


def test_a_file_that_is_not_valid_python_is_refused() -> None:
    (finding,) = list_weakenings_of_file(HEAD + OLD, "def test_it(:", "tests/test_shop.py")
    assert (finding.rule, finding.level) == ("does-not-parse", "refuse")


def test_an_easier_input_is_a_note_at_its_line() -> None:
    (finding,) = _compare(OLD, OLD.replace("shop price rice", "shop price"))
    assert (finding.rule, finding.level, finding.line) == ("code-changed", "note", 6)


def test_code_with_a_check_behind_the_old_code_is_no_note() -> None:
    old = "def test_it():\n    for name in ('rice', 'tea'):\n        assert price(name) == 3\n"
    assert _levels(old, f"{old}    with pytest.raises(KeyError):\n        price('brush')\n") == {}
    assert "code-changed" in _levels(old, f"{old}        assert name\n        break\n")


# Bypassed checks


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("assert price('a') == 3", "assert price('a') == 3 or True", "always-true"),
        ("assert price('a') == 3", "assert (price('a') == 3, 'three')", "always-true"),
        ("assert price('a') == 3", "assert price('a') == price('a')", "always-true"),
        ("assert price('a') == 3", "assert len(price('a')) >= 0", "always-true"),
        ("assert price('a') == 3", "assert '' in price('a')", "always-true"),
        ("assert price('a') == 3", "import pytest as p\n    p.skip()\n    assert price('a') == 3", "skip-added"),
        ("assert price('a') == 3", "return\n    assert price('a') == 3", "check-unreachable"),
        ("assert price('a') == 3", "if price('b'):\n        assert price('a') == 3", "check-conditional"),
        ("assert price('a') == 3", "if not price('b'):\n        return\n    assert price('a') == 3", "check-conditional"),
        ("assert price('a') == 3", "try:\n        assert price('a') == 3\n    except:\n        pass", "failure-swallowed"),
        (
            "assert price('a') == 3",
            "with pytest.raises(Exception):\n        assert price('a') == 3",
            "failure-swallowed",
        ),
        ("with pytest.raises(KeyError):\n        price(1)", "with pytest.raises(Exception):\n        price(1)", "broad-raises"),
        ("assert price('a') == 3", "import os\n    os._exit(0)\n    assert price('a') == 3", "early-exit"),
        (
            "assert price('a') == 3",
            "pytest.MonkeyPatch().setattr('shop.price', lambda name: 3)\n    assert price('a') == 3",
            "subject-mocked",
        ),
    ],
)  # fmt: skip
def test_a_bypass_of_a_check_is_refused(before: str, after: str, rule: str) -> None:
    old, new = (f"def test_it():\n    {body}\n" for body in (before, after))
    assert _levels(old, new)[rule] == "refuse"


@pytest.mark.parametrize("mark", ["skip", "skipif(True, reason='')", "xfail", "flaky(reruns=3)"])
def test_a_mark_that_makes_a_test_pass_is_refused(mark: str) -> None:
    (finding,) = [one for one in _compare(OLD, f"@pytest.mark.{mark}{OLD}") if one.level == "refuse"]
    assert (finding.line, finding.new) == (4, f"pytest.mark.{mark}")


def test_a_wait_that_fails_in_the_end_is_not_refused() -> None:
    old = "import time\ndef test_it():\n    time.sleep(2)\n    assert price('a') == 3\n"
    new = """
    import time
    def test_it():
        for _ in range(9):
            try:
                assert price('a') == 3
                return
            except AssertionError:
                time.sleep(0.1)
        assert price('a') == 3
    """
    assert "refuse" not in _levels(old, new).values()


def test_a_mock_of_something_else_and_a_sleep_are_notes() -> None:
    new = "import time\ndef test_it(monkeypatch):\n    monkeypatch.setattr('shop.clock', int)\n    time.sleep(1)\n    assert price('a') == 3\n"
    levels = _levels("def test_it():\n    assert price('a') == 3\n", new)
    assert (levels["mock-added"], levels["sleep-added"]) == ("note", "note")


def test_an_imported_name_that_the_file_redefines_is_refused() -> None:
    levels = _levels(OLD, "def price(name):\n    return 3\n" + OLD)
    assert levels["name-replaced"] == "refuse"


def test_what_a_new_test_bypasses_is_a_note() -> None:
    found = list_weakenings_of_file(None, HEAD + f"@pytest.mark.{MARK}\n" + OLD.lstrip(), "tests/test_shop.py")
    assert [(finding.rule, finding.level) for finding in found] == [("skip-added", "note")]


# The comparison as a whole


def test_only_the_wanted_test_is_compared() -> None:
    old = OLD + OLD.replace("test_it", "test_other")
    new = old.replace('    expect(result.stdout).to_equal("rice costs 3")\n', "", 1)
    assert [finding.rule for finding in _compare(old, new, "test_it")] == ["check-removed"]
    assert _compare(old, new, "test_other") == []


def test_an_unchanged_file_has_no_findings() -> None:
    for path in FILES[::10]:
        text = path.read_text()
        assert list_weakenings_of_file(text, text, path.name) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_is_compared_in_time(seed: int) -> None:
    chance = random.Random(seed)
    whole = chance.choice(FILES).read_text()
    lines = whole.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    damaged = "".join(lines)
    start = time.process_time()
    for old, new in ((whole, damaged), (damaged, whole)):
        assert isinstance(list_weakenings_of_file(old, new, "tests/test_it.py"), list)
    assert time.process_time() - start < MAX_SECONDS


@pytest.mark.parametrize(
    "new",
    [
        "def test_it(n=9 ** 9 ** 9):\n    assert 'a' * 10 ** 12 == price(n)\n",
        "def test_it():\n    assert " + "-" * 5000 + "1 == price(1)\n",
        "def test_it():\n" + "    assert price(1) == 1\n" * 5000,
        "".join(f"def helper{n}(x):\n    assert x\n    helper{n + 1}(x)\n" for n in range(1000)),
    ],
    ids=["large numbers", "deep", "long", "many helpers"],
)
def test_a_hostile_file_is_compared_in_time(new: str) -> None:
    start = time.process_time()
    found = _compare(OLD, new)
    assert time.process_time() - start < MAX_SECONDS
    assert found != []
