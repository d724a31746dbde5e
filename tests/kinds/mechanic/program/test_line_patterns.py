"""Patterns that match the outputs of several runs and are as specific as possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.e2e.expectations import line_matching
from mngr.kinds.mechanic.program.line_patterns import build_pattern, is_specific

CASES = [
    (["a\nb\n", "a\nb\n", "a\nb\n"], ["a", "b"]),
    (["made foo-1\n", "made foo-2\n", "made foo-3\n"], ["made foo-..."]),
    (["took 12ms\n", "took 12ms\n", "took 12ms\n"], ["took [DURATION]"]),
    (["at 12:00:01\n"] * 3, ["at [TIME]"]),
    (["commit 3f2504e\n"] * 3, ["commit [HASH]"]),
    (["commit 1234567 first\n"] * 3, ["commit [HASH] first"]),
    (["commit 3f2504e first\n", "commit abcdefa first\n", "commit 1234567 first\n"], ["commit [HASH] first"]),
    (["12345678 bytes, 1.2345678\n"] * 3, ["12345678 bytes, 1.2345678"]),
    (["a\nx\nb\n", "a\nb\n", "a\ny\nz\nb\n"], ["a", "...", "b"]),
    (["pid 12 ok\n", "pid 7 ok\n", "pid 900 ok\n"], ["pid ... ok"]),
    (["", "", ""], []),
    (["  all\n  in\n"] * 3, ["all", "in"]),
    (["<name> [TIME] ... (3)\n"] * 3, [r"\<name> \[TIME] \... \(3)"]),
    (["x  1 y\n", "x 10 y\n", "x  2 y\n"], ["x ... y"]),
]


@pytest.mark.parametrize(("outputs", "expected"), CASES)
def test_a_pattern_matches_every_output_it_was_built_from(outputs: list[str], expected: list[str]) -> None:
    pattern = build_pattern(outputs, [{}] * len(outputs))
    assert pattern == expected
    for text in outputs:
        assert line_matching.match_lines(
            line_matching.split_expected("\n".join(pattern)),
            line_matching.split_output(text),
            {},
            line_matching.PATTERNS,
        ).is_match


def test_paths_that_vary_between_runs_become_names() -> None:
    names = [{"HOME": "/tmp/a/home", "ROOT": "/tmp/a"}, {"HOME": "/tmp/b/home", "ROOT": "/tmp/b"}]
    pattern = build_pattern(["in /tmp/a/home/x and /tmp/a\n", "in /tmp/b/home/x and /tmp/b\n"], names)
    assert pattern == ["in [HOME]/x and [ROOT]"]


def test_wildcards_alone_are_not_specific() -> None:
    assert not is_specific(["...", "[TIME]", ""])
    assert is_specific(["... agents"])


ROW = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x00\x1c\x1d\x1e\x85\u2028\u2029"), max_size=12)


@given(st.lists(st.lists(ROW, max_size=5), min_size=2, max_size=3))
def test_a_pattern_matches_arbitrary_outputs_it_was_built_from(runs: list[list[str]]) -> None:
    texts = ["\n".join(rows) for rows in runs]
    pattern = build_pattern(texts, [{}] * len(texts))
    for text in texts:
        assert line_matching.match_lines(
            pattern, line_matching.split_output(text), {}, line_matching.PATTERNS
        ).is_match, (
            pattern,
            text,
        )
