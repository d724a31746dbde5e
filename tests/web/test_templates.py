"""Tests what the templates of all pages do with untrusted text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from mngr.web import templates
from mngr.web.templates import ENVIRONMENT, render_template

TOKEN = "gh" + "p_" + "a1B2" * 9
FOLDER = Path(templates.__file__).parent / "templates"
TAG = re.compile(r"</[a-z]|<(?:a|b|button|code|details|div|h[1-6]|i|img|input|li|p|pre|section|span|svg|t[dhr])[ >]")
NAMES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html"))


def render(text: str, **facts: object) -> str:
    """Return what the text of a template makes from facts."""
    return ENVIRONMENT.from_string('{% from "parts.html" import chip, long, with_code %}' + text).render(**facts)


def test_a_value_is_escaped_without_secrets_and_with_visible_control_codes() -> None:
    shown = render("{{ value }}", value=f"<b>\x1b[31m\u202e\r\n{TOKEN}")
    assert shown == "&lt;b&gt;^[[31m[U+202E]\n[redacted: a GitHub token]"


def test_html_that_a_template_made_is_not_escaped_again() -> None:
    assert render("{{ value }}", value=Markup("<b>x</b>")) == "<b>x</b>"


@pytest.mark.parametrize("expression", ["value|cut(30)", "long(value, 30)", "with_code(value, 30)"])
def test_a_secret_is_redacted_even_if_the_text_is_cut_inside_it(expression: str) -> None:
    shown = render(f"{{{{ {expression} }}}}", value=f"it said {TOKEN} twice")
    assert "a1B2" not in shown
    assert shown.startswith("it said [redacted: ")


def test_a_long_text_ends_with_the_number_of_missing_characters() -> None:
    note = '<span class="cut">… 30 more characters are not shown</span>'
    assert render("{{ long(value, 20) }}", value="x" * 50) == "x" * 20 + note
    assert render("{{ value|cut(20) }}", value="x" * 50) == "x" * 20 + "…"


def test_backquoted_parts_are_code_and_escaped() -> None:
    assert render("{{ with_code(value) }}", value="a `<b>` c") == "a <code>&lt;b&gt;</code> c"


def test_a_value_that_is_no_plain_word_has_no_class_of_its_own() -> None:
    assert render("{{ chip(value) }}", value='"><b>') == '<span class="chip c-other">&#34;&gt;&lt;b&gt;</span>'
    assert render("{{ chip('fails in suite') }}").startswith('<span class="chip c-fails-in-suite">')


def test_an_unknown_name_in_a_template_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("{{ missing }}")


@pytest.mark.parametrize("name", NAMES)
def test_a_template_never_trusts_a_text(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert re.findall(r"\|\s*safe\b|autoescape|Markup|<script>(?!\s*</)|\son\w+=", text) == []
    ENVIRONMENT.get_template(name)


def test_no_python_code_of_pages_contains_html() -> None:
    found = [
        f"{path.relative_to(FOLDER.parent)}:{node.lineno}"
        for path in sorted(FOLDER.parent.rglob("*.py"))
        if "live" not in path.relative_to(FOLDER.parent).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TAG.search(node.value)
    ]
    assert found == []


def test_every_page_forbids_scripts_and_styles_that_are_not_in_files() -> None:
    page = render_template("page.html", up="", plays=False)
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy
    assert page.index("Content-Security-Policy") < page.index("<script")


@pytest.mark.parametrize("name", NAMES)
def test_a_template_has_no_inline_style(name: str) -> None:
    assert " style=" not in (FOLDER / name).read_text() and "<style" not in (FOLDER / name).read_text()
