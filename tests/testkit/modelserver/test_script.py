"""A script is checked as a whole, and the error names the wrong step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import UsageError
from mngr.testkit.modelserver import ModelServer
from mngr.testkit.modelserver.script import (
    ModelScript,
    ScriptedCall,
    ScriptedFailure,
    ScriptedStep,
    parse_script,
)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("nonsense", "the script is not JSON"),
        (3, "a script must be a list of steps"),
        ({"step": []}, "the script: unknown key 'step'; the keys are steps, sessions, named, match"),
        ({"steps": {}}, "steps must be a list, not {}"),
        ({"sessions": []}, "sessions must be an object that maps names to steps"),
        ({"sessions": {"a/b": []}}, "sessions: 'a/b' cannot be a name"),
        ({"sessions": {"foo": [{}, {"cut": -1}]}}, "sessions.foo: step 2: cut must be a whole number"),
        ({"named": {"foo": [{"sh": 3}]}}, "named.foo: step 1: sh must be a string, not 3"),
        ({"match": "some"}, "match must be tools or all, not 'some'"),
        ([{"text": "a"}, "wait"], "step 2 must be an object, not 'wait'"),
        ([{"txt": "a"}], "step 1: unknown key 'txt'"),
        ([{"text": None}], "step 1: text must be a string, not None"),
        ([{"delay": True}], "step 1: delay must be a number of seconds"),
        ([{"delay": 1e9}], "step 1: delay must be"),
        ([{"chunk_delay": -1}], "step 1: chunk_delay must be"),
        ([{"input": {}}], "step 1: input must be an object or a string beside the key tool"),
        ([{"write": {"path": "a"}}], "step 1: write must be an object with path and content"),
        ([{"tools": [{"sh": "ls"}, {"text": "a"}]}], "step 1: tools 2: unknown key 'text'"),
        ([{"tools": {}}], "step 1: tools must be a list of calls"),
        ([{"usage": {"inputs": 1}}], "step 1: usage must be an object with the whole numbers"),
        ([{"usage": {"input": 1.5}}], "step 1: usage must be"),
        ([{"fail": 429}], "step 1: fail must be an object with a status, not 429"),
        ([{"fail": {}}], "step 1: fail: status must be a number from 400 to 599"),
        ([{"fail": {"status": 200}}], "step 1: fail: status must be"),
        ([{"fail": {"status": 429, "times": 0}}], "step 1: fail: times must be a whole number from 1"),
        ([{"fail": {"status": 429, "time": 1}}], "step 1: fail: unknown key 'time'"),
        ([{"fail": {"status": 429, "headers": {"a": "b\r\nc: d"}}}], "step 1: fail: headers must be"),
        ([{"fail": {"status": 429, "headers": {"a b": "c"}}}], "step 1: fail: headers must be"),
        ([{"fail": {"status": 429, "headers": {"content-length": "0"}}}], "step 1: fail: headers must be"),
        ([{"cut_times": 2}], "step 1: cut_times works only together with cut"),
        ([{"hang": 1}], "step 1: hang must be true or false"),
    ],
)
def test_an_invalid_script_is_rejected_with_the_wrong_step(script: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        ModelServer(script)
    assert message in error.value.message
    hint = str(error.value.hint)
    assert error.value.exit_code == 2 and ("for example" in hint or hint.startswith("add "))


def test_a_valid_script_is_parsed_completely() -> None:
    script = {
        "steps": [
            {"text": "a", "tool": "T", "sh": "ls", "tools": [{"write": {"path": "p", "content": "c"}}]},
            {
                "fail": {"status": 529, "times": -1, "headers": {"retry-after": 3}},
                "hang": False,
                "delay": 0.5,
            },
        ],
        "match": "all",
    }
    calls = (ScriptedCall("tool", "T", {}), ScriptedCall("sh", value="ls"), ScriptedCall("write", "p", "c"))
    assert parse_script(json.dumps(script)) == ModelScript(
        steps=(
            ScriptedStep(text="a", calls=calls),
            ScriptedStep(fail=ScriptedFailure(529, times=-1, headers={"retry-after": "3"}), delay=0.5),
        ),
        match="all",
    )


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "fail", "status", "tools", "headers", "cut", "usage"]), inner, max_size=4),
)  # fmt: skip


@given(ANY)
def test_any_value_is_parsed_or_rejected(script: Any) -> None:
    try:
        assert isinstance(parse_script(script), ModelScript)
    except UsageError as error:
        assert error.message


def test_the_fault_depends_on_the_number_of_requests() -> None:
    step = ScriptedStep(
        fail=ScriptedFailure(429, times=2), hang=True, hang_times=1, cut=0, sse_error="e", sse_error_times=2
    )
    assert [step.find_fault(request_count) for request_count in range(1, 8)] == [
        "fail",
        "fail",
        "hang",
        "cut",
        "sse_error",
        "sse_error",
        None,
    ]
    assert {
        ScriptedStep(fail=ScriptedFailure(429, times=-1), cut=1).find_fault(request_count)
        for request_count in (1, 2, 1000)
    } == {"fail"}
