"""The last screen of a recording, which an agent can write."""

from __future__ import annotations

import pytest

from mngr.web.player_or_last_screen import render_last_screen

_DEEP = "[" * 200_000


def test_the_last_screen_shows_the_output() -> None:
    assert render_last_screen('{"width": 20, "height": 3}\n[0.1, "o", "hello"]\n') == "hello"


def test_events_that_are_nested_too_deeply_are_skipped() -> None:
    assert render_last_screen(f'{{"width": 20, "height": 3}}\n{_DEEP}\n[0.1, "o", "hello"]\n') == "hello"


@pytest.mark.parametrize("header", [_DEEP, '{"width": 1e999, "height": 3}', '{"width": NaN, "height": []}', "[]", ""])
def test_a_hostile_header_does_not_stop_mngr(header: str) -> None:
    assert isinstance(render_last_screen(f'{header}\n[0.1, "o", "hello"]\n'), str)
