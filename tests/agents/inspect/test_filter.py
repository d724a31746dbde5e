"""Tests `--filter`: its meaning, and the errors for invalid filters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.agents.inspect.filter import compile_filter
from mngr.base.errors import UsageError
from mngr.base.model import AgentView

AGENT: dict[str, Any] = {
    "name": "foo-10",
    "state": "RUNNING",
    "pid": 90,
    "branch": "mngr/foo",
    "labels": {"team": "red", "a.b": "dotted", "n": "12"},
    "dirty": True,
    "unpulled": None,
    "exit_code": 0,
    "created_at": "2026-11-15T21:30:00.000Z",
}


def matches(text: str) -> bool:
    return compile_filter(text, AgentView._fields)(AGENT)


@pytest.mark.parametrize(
    "text",
    [
        "state == RUNNING", "state != DONE", "name ~ ^foo-[0-9]+$", "name ~ oo", "pid > 10", "pid >= 90", "pid < 100",
        "pid<=90", "labels.team == red", "labels.a.b == dotted", "labels.n > 9", "labels.nothing == ''",
        "labels.nothing != red", "dirty == true", "unpulled == ''", "not unpulled > 0", "exit_code == 0",
        "branch == 'mngr/foo'", 'branch == "mngr/foo"', "created_at > 2026-11-01", "created_at < 2026-12",
        "state == DONE or pid == 90", "state == RUNNING and (pid == 1 or pid == 90)", "not state == DONE",
        "not (state == DONE and pid == 90)", "state == DONE and pid == 1 or name == foo-10",
        "name == foo-10 or state == DONE and pid == 1", "state=='RUNNING'", "not not state == RUNNING",
        "pid == 90 and dirty == true and state == RUNNING", "pid == 1 or pid == 2 or pid == 90",
    ],
)  # fmt: skip
def test_a_filter_matches_and_its_negation_does_not(text: str) -> None:
    assert matches(text)
    assert not matches(f"not ({text})")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a field"), ("stat == x", "did you mean 'state'"), ("state", "after 'state'"), ("state = RUNNING", "mngr does not understand"),
        ("state ==", "expected a value"), ("(state == x", "a closing ) is missing"), ("state == x)", "does not expect ')'"),
        ("state == x y", "does not expect 'y'"), ("== x", "expected a field"), ("state == x and", "expected a field"),
        ("name ~ '['", "not a regular expression"), ("state == 'x", "mngr does not understand"), ("zzz.y == 1", "use one of: id, name"), ("not", "expected a field"),
    ],
)  # fmt: skip
def test_invalid_filters_are_explained(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        matches(text)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


_LEAF = st.sampled_from(["pid == 90", "pid == 1", "state == RUNNING", "state == DONE"])


@given(
    st.recursive(
        _LEAF,
        lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner),
    )
)
def test_combined_filters_agree_with_python(expression: Any) -> None:
    def write(node: Any) -> tuple[str, bool]:
        if isinstance(node, str):
            return node, node in ("pid == 90", "state == RUNNING")
        if node[0] == "not":
            text, value = write(node[1])
            return f"not ({text})", not value
        (left, a), (right, b) = write(node[1]), write(node[2])
        return f"({left}) {node[0]} ({right})", a and b if node[0] == "and" else a or b

    text, expected = write(expression)
    assert matches(text) is expected


@given(st.text())
def test_any_text_is_a_filter_or_a_usage_error(text: str) -> None:
    try:
        compile_filter(text, AgentView._fields)
    except UsageError as error:
        assert error.hint
