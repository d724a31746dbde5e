"""Tests that the colours of a screen become CSS classes, and that nothing else of it reaches the browser."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mngr.overview.agent_details import AgentDetail, Span
from mngr.overview.untrusted_text import split_screen
from mngr.web.live.agents.detail_html import render_detail

_SAFE = re.compile(r'(?:[^<>&\x00-\x08\x0b-\x1f\x7f"\']|&(?:lt|gt|amp|quot|#x27);|<span class="[a-z0-9 -]+">|</span>)*')


def render_screen(text: str) -> str:
    return render_detail(AgentDetail(lines=tuple((Span(text=line, style="screen"),) for line in split_screen(text))))


def test_colours_become_classes_and_continue_on_the_next_line() -> None:
    assert render_screen("\x1b[1;31mred\nstill\x1b[0m plain") == (
        '<span class="s-bold fg-1">red</span>\n<span class="s-bold fg-1">still</span> plain'
    )
    assert render_screen("\x1b[97;44ma\x1b[39;49mb") == '<span class="fg-15 bg-4">a</span>b'


def test_colours_of_256_and_of_24_bits_are_rounded() -> None:
    assert render_screen("\x1b[38;5;196ma") == '<span class="fg-9">a</span>'
    assert render_screen("\x1b[48;2;0;0;250ma") == '<span class="bg-4">a</span>'
    assert render_screen("\x1b[38;5;255ma") == '<span class="fg-7">a</span>'
    assert render_screen("\x1b[38;5ma\x1b[38;2;1mb\x1b[38mc") == "abc"


def test_html_is_escaped_in_every_style() -> None:
    lines = ((Span(text="<b>&'\"", style="added"), Span(text="<i>")),)
    expected = '<span class="t-added">&lt;b&gt;&amp;&#x27;&quot;</span>&lt;i&gt;'
    assert render_detail(AgentDetail(lines=lines)) == expected


@given(st.text(alphabet=st.sampled_from("\x1b[;m0123456789<>&\"'ab\n\x07]\x9b"), max_size=60))
def test_no_screen_leaves_the_allowed_html(text: str) -> None:
    assert _SAFE.fullmatch(render_screen(text).replace("\n", ""))


@given(st.text(alphabet=st.sampled_from("0123456789;"), max_size=20))
def test_any_numbers_of_colours_are_accepted(numbers: str) -> None:
    assert "x" in render_screen(f"\x1b[{numbers}mx")
