"""Tests that templates escape everything and reject values that are not given."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from mngr.web.templates import ENVIRONMENT

HOSTILE = '<script>alert(1)</script>\x1b[31m\u202e"'


def test_values_are_escaped_and_their_control_characters_are_visible() -> None:
    text = ENVIRONMENT.from_string('<p title="{{ value }}">{{ value }}</p>').render(value=HOSTILE)
    assert "<script>" not in text and "\x1b" not in text and "\u202e" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;^[[31m[U+202E]&#34;") == 2


def test_html_that_mngr_made_is_not_escaped_again() -> None:
    assert ENVIRONMENT.from_string("{{ value }}").render(value=Markup("<b>x</b>")) == "<b>x</b>"


def test_secrets_are_removed_from_values() -> None:
    secret = "ghp_" + "a1B2" * 9
    assert secret not in ENVIRONMENT.from_string("{{ value }}").render(value=f"token {secret}")


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        ENVIRONMENT.from_string("{{ missing }}").render()
