"""Malformed requests are read without errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.testkit.modelserver.apis import APIS
from mngr.testkit.modelserver.playback import Playback
from mngr.testkit.modelserver.request import ModelRequest, estimate_tokens
from mngr.testkit.modelserver.script import ModelScript, ScriptedStep
from mngr.testkit.modelserver.tools import resolve_calls

WORDS = [
    "additional_tools", "content", "contents", "function", "functionDeclarations", "functionResponse", "functions",
    "generationConfig", "input", "input_schema", "instructions", "max_tokens", "message", "messages", "name", "namespace",
    "output_config", "parameters", "parts", "properties", "responseSchema", "role", "schema", "system", "systemInstruction",
    "text", "tool_result", "tools", "type", "user", "Bash", "write", "apply_patch", "command", "enum", "anyOf",
]  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=30,
)


@pytest.mark.parametrize("api", APIS)
@given(body=st.dictionaries(st.sampled_from(WORDS), ANY, max_size=6))
def test_any_body_can_be_answered(api: str, body: dict[str, Any]) -> None:
    api_module = APIS[api]
    parsed = api_module.parse_request(body)
    assert all(isinstance(turn.text, str) and isinstance(turn.role, str) for turn in parsed.turns)
    assert all(estimate_tokens(part) >= 0 for part in api_module.select_measured_parts(body).to_dict().values())
    request = ModelRequest(api=api, session="s", model="m", stream=False, body=body, parsed=parsed, size=1)
    assert Playback(ModelScript(steps=(ScriptedStep(text="a"),))).choose_step(request).step.text is not None
    step = Playback(ModelScript()).choose_step(request).step
    assert resolve_calls(step.calls, parsed.tools) == ()


@pytest.mark.parametrize(
    ("value", "tokens"), [(None, 0), ("", 0), ([], 0), ("abcd", 1), ("abcde", 2), ("ü" * 4, 2), (["ab"], 2)]
)
def test_token_estimates_count_four_bytes_per_token(value: Any, tokens: int) -> None:
    assert estimate_tokens(value) == tokens
