"""Tests of numbers of bytes as text."""

from __future__ import annotations

import pytest

from mngr.base.size_format import choose_noun, format_count, format_size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (1024 * 1024, "1.049 MB"), (12_500_000_000, "12.5 GB")],
)
def test_a_size_has_units_of_a_thousand(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks"), (12_000, "12,000 tasks")])
def test_a_count_has_its_noun_in_the_singular_or_plural(count: int, text: str) -> None:
    assert format_count(count, "task") == text


def test_an_irregular_plural_is_given() -> None:
    assert (choose_noun(1, "is", "are"), choose_noun(2, "is", "are")) == ("is", "are")
