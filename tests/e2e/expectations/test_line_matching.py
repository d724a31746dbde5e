"""Expected lines: wildcards, quantities, captured names, and patterns for text that varies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.e2e.expectations import expectation_updates, line_matching

FITS = [
    ("a\nb", "a\nb", True),
    ("a\nb", "a\nc", False),
    ("a", "a\nb", False),
    ("...", "", True),
    ("a\n...\nz", "a\nb\nc\nz", True),
    ("a\n...\nz", "a\nz", True),
    ("a\n...\nz\n...", "a\nz\nb\nz\nc", True),
    ("a\n...\nz", "a\nb", False),
    ("took ... ms", "took 12 ms", True),
    ("took ... ms", "took ms", False),
    ("b (?)\nc", "c", True),
    ("b (?)\nc", "b\nc", True),
    ("b (?)\nc", "b\nb\nc", False),
    ("x (*)\ny", "y", True),
    ("x... (+)\ny", "x1\nx2\nx3\ny", True),
    ("x (+)\ny", "y", False),
    ("x (3)", "x\nx\nx", True),
    ("x (3)", "x\nx", False),
    ("x (2,3)\n...", "x\nx\nx\nx", True),
    ("x (2,3)", "x\nx\nx\nx", False),
    ("x (2,)", "x\nx\nx\nx", True),
    (r"x \(3)", "x (3)", True),
    (r"\...", "...", True),
    (r"\...", "abc", False),
    (r"\<a> \[TIME]", "<a> [TIME]", True),
    ("at [TIME]", "at 2026-01-02T03:04:05Z", True),
    ("at [TIME]", "at noon", False),
    ("[UNKNOWN]", "[UNKNOWN]", True),
    ("<a> is <a>", "x is x", True),
    ("<a> is <a>", "x is y", False),
    ("<a>\n...\n<a>", "x\ny\nx", True),
    ("a.b*", "a.b*", True),
    ("a.b", "axb", False),
]


@pytest.mark.parametrize(("expected", "actual", "fits"), FITS)
def test_expected_lines_match_or_reject_the_output(expected: str, actual: str, fits: bool) -> None:
    outcome = line_matching.match_lines(expected.split("\n"), actual.split("\n"), {}, line_matching.PATTERNS)
    assert outcome.is_match is fits


def test_a_captured_name_must_have_the_same_value_later() -> None:
    outcome = line_matching.match_lines(["made <agent>"], ["made foo"], {}, {})
    assert outcome.names == {"agent": "foo"}
    assert line_matching.match_lines(["<agent> runs"], ["foo runs"], outcome.names, {}).is_match
    assert not line_matching.match_lines(["<agent> runs"], ["bar runs"], outcome.names, {}).is_match


def test_a_mismatch_reports_the_first_line_that_differs() -> None:
    outcome = line_matching.match_lines(["a", "b", "c"], ["a", "b", "x"], {}, {})
    assert (outcome.expected_at, outcome.actual_at) == (2, 2)


def test_matching_20000_lines_is_fast() -> None:
    actual = [f"line {n}" for n in range(20_000)]
    assert line_matching.match_lines(["...", "line 10000", "...", "line 19999"], actual, {}, {}).is_match
    assert not line_matching.match_lines(["...", "line 10000", "...", "line 9999"], actual, {}, {}).is_match


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"), max_size=20)


@given(st.lists(TEXT.map(str.rstrip), max_size=6))
def test_any_output_can_be_turned_into_a_matching_expectation(actual: list[str]) -> None:
    lines = expectation_updates.generalize_lines([], actual, {}, line_matching.PATTERNS)
    assert line_matching.match_lines(lines, actual, {}, line_matching.PATTERNS).is_match


@given(
    st.lists(st.sampled_from(["a", "b", "...", "c (*)", "<n>", "x..."]), max_size=6),
    st.lists(st.sampled_from(["a", "b", "c", "xy", "..."]), max_size=8),
)
def test_an_updated_expectation_matches_the_output(expected: list[str], actual: list[str]) -> None:
    lines = expectation_updates.generalize_lines(expected, actual, {}, line_matching.PATTERNS)
    assert line_matching.match_lines(lines, actual, {}, line_matching.PATTERNS).is_match


@pytest.mark.parametrize(
    ("expected", "actual", "made"),
    [
        ("a\n...\nz", "a\n1\n2\ny", "a\n...\ny"),
        ("x\n...", "a\n1\n2", "a\n..."),
        ("...\nb\n...", "1\nb\n2", "...\nb\n..."),
        ("a\n...\nb\nc", "1\nb\n2", "1\n...\nb\n2"),
        ("x (*)\nend\nb", "x\nx\nx\nfin\nb", "x (*)\nfin\nb"),
    ],
)
def test_an_update_keeps_the_wildcards_of_the_old_expectation(expected: str, actual: str, made: str) -> None:
    lines = expectation_updates.generalize_lines(expected.split("\n"), actual.split("\n"), {}, line_matching.PATTERNS)
    assert lines == made.split("\n")


@given(st.lists(TEXT, max_size=5), st.lists(TEXT, max_size=8))
def test_matching_arbitrary_lines_raises_nothing(expected: list[str], actual: list[str]) -> None:
    line_matching.match_lines(expected, actual, {}, line_matching.PATTERNS)
