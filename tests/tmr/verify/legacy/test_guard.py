"""What the guard says of single edits: rules, lines and levels."""

from __future__ import annotations

import textwrap

import pytest

from mngr.tmr.finding import Finding
from mngr.tmr.verify.legacy.guard import Contract, weakened

HEAD = "import pytest\nfrom mngr.e2e import expect\nfrom shop import price\n"


def _found(old: str, new: str, doc: str = "", path: str = "tests/test_shop.py") -> list[Finding]:
    made = [HEAD + textwrap.dedent(text) for text in (old, new)]
    return weakened(made[0], made[1], path, contract=Contract(docs={"test_it": doc} if doc else {}))


def _levels(found: list[Finding]) -> dict[str, str]:
    return {finding.rule: finding.level for finding in found}


OLD = """
def test_it(e2e):
    result = e2e.run("shop price rice")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice costs 3")
"""


def test_a_loosened_check_is_shown_with_both_lines() -> None:
    new = OLD.replace('to_equal("rice costs 3")', 'to_contain("rice")')
    (finding,) = _found(OLD, new)
    assert (finding.rule, finding.level, finding.line) == ("loosened", "refuse", 8)
    assert finding.old == 'expect(result.stdout).to_equal("rice costs 3")'
    assert finding.new == 'expect(result.stdout).to_contain("rice")'


def test_a_removed_check_is_found_in_the_old_file() -> None:
    new = OLD.replace('    expect(result.stdout).to_equal("rice costs 3")\n', "")
    (finding,) = _found(OLD, new)
    assert (finding.rule, finding.level, finding.line) == ("assert-removed", "refuse", 8)


def test_a_removal_that_the_contract_justifies_is_said_so() -> None:
    old = OLD + '    expect(result.stdout).not_to_contain("loyalty")\n    expect(result.stderr).to_contain("cached")\n'
    new = OLD + '    expect(result.stdout).not_to_contain("loyalty")\n'
    found = _found(old, new, doc="The price of a thing is shown.")
    assert _levels(found) == {"assert-removed": "justified"}


def test_what_the_contract_names_cannot_be_removed() -> None:
    old = OLD + '    expect(result.stderr).to_contain("cached")\n'
    found = _found(old, OLD, doc="The price of a thing is shown, and said to be cached where it is.")
    assert _levels(found) == {"assert-removed": "refuse"}


def test_what_the_contract_leaves_open_may_be_loosened_and_that_is_said() -> None:
    old = OLD + '    expect(result.stderr).to_equal("rice was asked for twice")\n'
    new = OLD + '    expect(result.stderr).to_contain("rice")\n'
    doc = "The price of a thing is shown, and a warning on stderr. The wording of warnings is not promised."
    assert _levels(_found(old, new, doc=doc)) == {"loosened": "justified"}
    assert _levels(_found(old, new, doc=doc.replace("is not promised", "never changes"))) == {"loosened": "refuse"}


def test_an_easier_input_says_what_it_has_lost() -> None:
    old = """
    def test_it():
        assert price("rice, 'wild'") == 3
    """
    (finding,) = [f for f in _found(old, old.replace(", 'wild'", "")) if f.level == "refuse"]
    assert (finding.rule, finding.what) == ("input-weakened", "test_it: its input no longer contains quotes")


def test_another_value_is_a_note() -> None:
    found = _found(OLD, OLD.replace("rice costs 3", "rice: 3 coins"))
    assert _levels(found) == {"expectation-changed": "note"}


def test_another_value_against_the_contract_is_refused() -> None:
    found = _found(OLD, OLD.replace("rice costs 3", "rice costs 4"), doc="It prints: rice costs 3")
    assert _levels(found) == {"against-contract": "refuse"}


def test_a_check_moved_into_a_helper_that_is_called_is_kept() -> None:
    new = """
    def shown(result, text):
        expect(result).to_succeed()
        expect(result.stdout).to_equal(text)

    def test_it(e2e):
        shown(e2e.run("shop price rice"), "rice costs 3")
    """
    assert _found(OLD, new) == []


def test_a_check_behind_a_condition_says_which() -> None:
    new = OLD.replace("    expect(result.stdout)", "    if result.stdout:\n        expect(result.stdout)")
    (finding,) = _found(OLD, new)
    assert finding.rule == "conditional"
    assert "if e2e.run('shop price rice').stdout" in finding.what


def test_rows_of_parameters_count_each() -> None:
    old = """
    @pytest.mark.parametrize(("thing", "coins"), [("rice", 3), ("jam", 4)])
    def test_it(thing, coins):
        assert price(thing) == coins
    """
    assert [f.rule for f in _found(old, old.replace(', ("jam", 4)', ""))] == ["assert-removed"]
    unrolled = """
    def test_it():
        assert price("jam") == 4
        assert price("rice") == 3
    """
    assert _found(old, unrolled) == []


def test_a_test_that_is_not_collected_any_more_is_gone() -> None:
    (finding,) = _found(OLD, OLD.replace("def test_it", "def _test_it"))
    assert (finding.rule, finding.level) == ("test-removed", "refuse")
    assert "_test_it" in finding.what


def test_a_file_that_is_deleted_takes_its_tests_along() -> None:
    (finding,) = weakened(HEAD + OLD, None, "tests/test_shop.py", contract=Contract())
    assert (finding.rule, finding.level) == ("test-removed", "refuse")


def test_a_file_that_does_not_parse_is_refused() -> None:
    (finding,) = weakened(HEAD + OLD, "def test_it(:", "tests/test_shop.py", contract=Contract())
    assert (finding.rule, finding.line) == ("does-not-parse", 1)


def test_a_new_file_has_nothing_to_be_weaker_than() -> None:
    found = weakened(None, HEAD + OLD, "tests/test_shop.py", contract=Contract())
    assert found == []


def test_only_the_tests_that_are_asked_for_are_compared() -> None:
    new = OLD.replace('to_equal("rice costs 3")', 'to_contain("rice")')
    old, now = HEAD + OLD, HEAD + new
    path = "tests/test_shop.py"
    assert weakened(old, now, path, contract=Contract(), tests=["test_other"]) == []
    assert weakened(old, now, path, contract=Contract(), tests=[f"{path}::test_it[rice]"]) != []


def test_an_outcome_is_not_for_a_hook_to_change() -> None:
    new = """
    def pytest_runtest_makereport(item, call):
        return None
    """
    found = _found("", new, path="tests/conftest.py")
    assert _levels(found) == {"hook": "refuse"}


def test_nothing_of_the_file_is_run_and_a_bomb_ends() -> None:
    bomb = "def test_it(n=9 ** 9 ** 9):\n    assert 'a' * 10 ** 12 == price(n)\n"
    nest = "def test_it():\n" + "".join(f"{'    ' * (depth + 1)}for a{depth} in range(50):\n" for depth in range(8))
    for text in (bomb, nest + "    " * 9 + "assert price(a0) == 1\n"):
        assert isinstance(weakened(HEAD + OLD, HEAD + text, "tests/test_shop.py", contract=Contract()), list)


@pytest.mark.parametrize("line", ['"true " + "x" * 5000', '"true " + "x" * 50_000_000_000', f'"true {"x " * 40_000}"'])
def test_a_command_line_that_is_too_long_to_be_read_is_noted(line: str) -> None:
    found = _found(OLD, OLD.replace("    result", f"    e2e.run({line})\n    result", 1))
    assert _levels(found) == {"long-line": "note"}


def test_a_hook_that_another_file_has_is_noted() -> None:
    found = _found("", "from helpers import pytest_collection_modifyitems", path="tests/conftest.py")
    assert _levels(found) == {"hook": "note"}
