"""Which expectations may be reworded: a test is never changed to another value or to the opposite."""

from __future__ import annotations

import pytest

from mngr.e2e.expectations import line_matching
from mngr.kinds.mechanic.program.rewording import (
    FixedWords,
    RewordingDoubt,
    find_renamed_option,
    find_rewording,
    rename_option,
    reword_lines,
)

SAID = "added rice to the pantry was wrote this file ITEM a bag milk kept at noon heading red".split()
HELD = FixedWords.collect(
    ["shop add rice --to top"],
    ["# put something in\nshop add rice --to top", "It is kept in a box."],
    SAID.__contains__,
)


@pytest.mark.parametrize(
    ("expected", "shown", "found"),
    [
        ("added rice to the larder", "ok\nadded rice to the pantry\n", "added rice to the pantry"),
        ("Added rice.", "Added: rice\n", "Added: rice"),
        ("rice added", "rice was added\n", "rice was added"),
        ("wrote the file", "now: wrote this file (3 kB)\n", "wrote this file"),
        (" the larder", "to the pantry\n", None),
    ],
)
def test_one_close_match_is_a_rewording(expected: str, shown: str, found: str | None) -> None:
    result = find_rewording(expected, shown, HELD)
    assert isinstance(result, RewordingDoubt) if found is None else result == found


@pytest.mark.parametrize(
    ("expected", "shown", "why"),
    [
        ("2 things added", "3 things added\n", "'2' is a value"),
        ("added rice to the shop", "added rice to the shop2\n", "'shop2' is a value"),
        ("rice was added", "rice was not added\n", "'not' may reverse"),
        ("all things added", "some things added\n", "may reverse"),
        ("the next is rice", "the next is milk\n", "'rice' is part of a command"),
        ("the next is milk", "the next is rice\n", "'rice' is an argument of a command"),
        ("rice is in a box now", "rice is in a bag now\n", "'box' is part of"),
        ("rice is on the shelf", "rice was on the shelf\nrice is on a shelf\n", "several lines"),
        ("added rice to the larder", "gone\n", "prints nothing similar"),
        ("added rice to the larder", "", "prints nothing similar"),
        ("the light is red now", "the light is on now\n", "still contains 'red'"),
        ("the light is green now", "the light is blue now\n", "'blue' does not occur"),
        ("wrote it to a.txt", "wrote it to b.txt\n", "'a.txt' is a value"),
        ("wrote it > here", "wrote it < here\n", "a sign may reverse"),
        ("one\ntwo", "one\ntwe\n", "several lines"),
        (
            "added rice to the larder",
            "added rice to\n",
            "prints nothing similar",
        ),  # a match with fewer words does not count
    ],
)
def test_a_possible_change_of_meaning_is_a_doubt(expected: str, shown: str, why: str) -> None:
    doubt = find_rewording(expected, shown, HELD)
    assert isinstance(doubt, RewordingDoubt) and why in doubt.reason, doubt


def reword(expected: str, shown: str) -> list[str] | RewordingDoubt:
    rows = line_matching.split_expected(expected)
    return reword_lines(
        rows,
        shown,
        HELD,
        line_matching.match_lines(rows, line_matching.split_output(shown), {}, line_matching.PATTERNS),
    )


def test_reworded_lines_are_replaced() -> None:
    assert reword("NAME  SHELF\n...\nrice  [NUMBER]", "ITEM  SHELF\njam  1\nrice  3\n") == [
        "ITEM  SHELF", "...", "rice  [NUMBER]",
    ]  # fmt: skip
    assert reword("the heading\nx", "the heading...\nx\n") == [r"the heading\...", "x"]


@pytest.mark.parametrize(
    ("expected", "shown", "why"),
    [
        ("a\nb", "b\na\n", "in another order"),
        ("one row\ntwo rows", "one row\n", "fewer lines than expected"),
        ("one row", "one row\nand more\n", "more lines than expected"),
        ("at [TIME] sharp", "at noon sharp\n", "is a pattern that does not match"),
        ("rice  3", "rice  4\n", "is a value"),
    ],
)
def test_lines_with_another_meaning_are_a_doubt(expected: str, shown: str, why: str) -> None:
    doubt = reword(expected, shown)
    assert isinstance(doubt, RewordingDoubt) and why in doubt.reason, doubt


@pytest.mark.parametrize(
    ("command", "said", "pair"),
    [
        ("x ls --order a", "x ls: there is no option --order; did you mean --sort?", ("--order", "--sort")),
        ("x ls --order a", "Error: No such option: --order Did you mean --sort?", ("--order", "--sort")),
        ("x --order", "error: unexpected argument '--order' found\n\n  tip: a similar argument exists: '--sort'", ("--order", "--sort")),
        ("x --order=a", "warning: --order is deprecated, use --sort instead", ("--order", "--sort")),
        ("x --order", "No such option: --order\nTry 'x --help' for help.", None),
        ("x --order", "usage: x [--sort] [--order-by]\nx: error: unrecognized arguments: --order", None),
        ("x --order", "unknown option --order (did you mean --sort or --by?)", None),
        ("x --order", "use --sort together with --order", None),
        ("x --all", "cannot open file", None),
    ],
)  # fmt: skip
def test_a_renamed_option_is_found_in_the_programs_suggestion(
    command: str, said: str, pair: tuple[str, str] | None
) -> None:
    assert find_renamed_option(command, said) == pair


def test_only_the_exact_option_is_renamed() -> None:
    text = "x --order a --order-by b --order=c --no--order"
    assert rename_option(text, "--order", "--sort") == "x --sort a --order-by b --sort=c --no--order"
