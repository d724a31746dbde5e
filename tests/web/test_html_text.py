"""Tests what a page shows of untrusted text."""

from __future__ import annotations

from mngr.web.html_text import escape_long, escape_plain

TOKEN = "gh" + "p_" + "a1B2" * 9


def test_a_secret_is_redacted_even_if_the_text_is_cut_inside_it() -> None:
    for shown in (escape_plain(f"it said {TOKEN} twice", 30), escape_long(f"it said {TOKEN} twice", 30)):
        assert "a1B2" not in shown
        assert shown.startswith("it said [redacted: ")


def test_a_long_text_ends_with_the_number_of_missing_characters() -> None:
    assert escape_long("x" * 50, 20) == "x" * 20 + '<span class="cut">… 30 more characters are not shown</span>'
    assert escape_plain("x" * 50, 20) == "x" * 20 + "…"
