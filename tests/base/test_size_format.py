"""Tests of numbers of bytes as text."""

from __future__ import annotations

import pytest

from mngr.base.size_format import format_size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (1024 * 1024, "1.049 MB"), (12_500_000_000, "12.5 GB")],
)
def test_a_size_has_units_of_a_thousand(size: int, text: str) -> None:
    assert format_size(size) == text
