"""Answers of the model in each API, streamed and not."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.testkit.modelserver.client import APIS, SHELL, Heard, ask, hear, post, request

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
ALL = pytest.mark.parametrize("api", APIS)
LONG = "a text in many pieces, ünïcode and \U0001f600 and all " * 5
END = {"anthropic": "end_turn", "responses": "completed", "chat": "stop", "gemini": "STOP"}
CALLED = {"anthropic": "tool_use", "responses": "completed", "chat": "tool_calls", "gemini": "STOP"}


@BOTH
@ALL
def test_a_text_arrives_in_every_api(api: str, stream: bool) -> None:
    with ModelServer([{"text": LONG, "usage": {"input": 7, "output": 3, "cache_read": 2, "cache_write": 1}}]) as server:
        heard = hear(api, ask(server, api=api, stream=stream), stream=stream)
        assert heard == Heard(LONG, "", [], END[api], (10, 3))


@BOTH
@ALL
def test_one_answer_can_hold_thinking_text_and_calls(api: str, stream: bool) -> None:
    step = {
        "thinking": "hm, " * 20,
        "text": "look",
        "sh": "ls -l",
        "tools": [{"tool": "Read", "input": {"n": 1}}],
    }
    with ModelServer([step]) as server:
        heard = hear(api, ask(server, api=api, stream=stream), stream=stream)
        assert (heard.thinking, heard.text, heard.stop) == ("hm, " * 20, "look", CALLED[api])
        assert heard.calls == [("Bash", {"command": "ls -l"}), ("Read", {"n": 1})]
        assert heard.usage[0] > 10 and heard.usage[1] > 1


@BOTH
@ALL
def test_the_answer_is_ok_when_no_step_is_left(api: str, stream: bool) -> None:
    with ModelServer() as server:
        assert hear(api, ask(server, api=api, stream=stream), stream=stream).text == "ok"


@pytest.mark.parametrize(
    ("api", "stop", "said"),
    [
        ("anthropic", "max_tokens", "max_tokens"), ("responses", "max_tokens", "max_output_tokens"),
        ("chat", "max_tokens", "length"), ("gemini", "max_tokens", "MAX_TOKENS"),
        ("chat", "refusal", "content_filter"), ("gemini", "SAFETY", "SAFETY"),
    ],
)  # fmt: skip
@BOTH
def test_a_stop_reason_is_translated_for_each_api(api: str, stop: str, said: str, stream: bool) -> None:
    with ModelServer([{"text": "so far", "stop": stop}]) as server:
        assert hear(api, ask(server, api=api, stream=stream), stream=stream).stop == said


CMD = {"properties": {"cmd": {"type": "string"}}}
ARGV = {"properties": {"command": {"type": "array"}, "description": {}}}
FILE: dict[str, Any] = {"properties": {"file_path": {}, "content": {}}}
PATCH = "*** Begin Patch\n*** Add File: /a\n+b\n+c\n*** End Patch\n"


@pytest.mark.parametrize(
    ("tools", "step", "call"),
    [
        ({"exec_command": CMD}, {"sh": "ls"}, ("exec_command", {"cmd": "ls"})),
        ({"shell": ARGV}, {"sh": "ls"}, ("shell", {"command": ["bash", "-lc", "ls"], "description": "scripted command"})),
        ({"run_shell_command": SHELL}, {"sh": "ls"}, ("run_shell_command", {"command": "ls"})),
        ({"Read": FILE, "Bash": SHELL}, {"sh": "ls"}, ("Bash", {"command": "ls"})),
        ({"Write": FILE}, {"write": {"path": "/a", "content": "b"}}, ("Write", {"file_path": "/a", "content": "b"})),
        ({"write": {"properties": {"filePath": {}}}}, {"write": {"path": "/a", "content": "b"}}, ("write", {"filePath": "/a", "content": "b"})),
        ({"apply_patch": CMD}, {"write": {"path": "/a", "content": "b\nc\n"}}, ("apply_patch", {"input": PATCH})),
        ({"Bash": SHELL}, {"write": {"path": "/a b", "content": "it's"}}, ("Bash", {"command": "printf %s 'it'\"'\"'s' > '/a b'"})),
        ({"Bash": SHELL}, {"tool": "Grep", "input": {"x": [1]}}, ("Grep", {"x": [1]})),
    ],
)  # fmt: skip
@ALL
def test_calls_use_the_tools_that_the_client_has(api: str, tools: dict[str, Any], step: Any, call: Any) -> None:
    with ModelServer([step]) as server:
        assert hear(api, ask(server, api=api, tools=tools), stream=False).calls == [call]


@BOTH
def test_codex_tools_that_take_plain_text_get_plain_text(stream: bool) -> None:
    _, body = request("responses", [("user", "hi")], {}, stream)
    custom_tool = {"type": "custom", "name": "apply_patch", "format": {}}
    namespace = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    steps = [{"write": {"path": "/a", "content": "b\nc\n"}}, {"sh": "ls"}]
    with ModelServer(steps) as server:
        heard = hear("responses", post(server, "/responses", {**body, "tools": [custom_tool]}), stream=stream)
        assert heard.calls == [("apply_patch", PATCH)]
        body["input"].append({"type": "additional_tools", "tools": [namespace]})
        heard = hear("responses", post(server, "/responses", body), stream=stream)
        assert heard.calls == [("exec", 'const r = await tools.exec_command({cmd: "ls"}); text(r);')]


def test_codex_status_items_do_not_count_as_answers() -> None:
    script = '<fake>[{"text": "first"}, {"text": "second"}]</fake> go'
    _, body = request("responses", [("user", script)], {"exec": {}}, False)
    body["input"].append({"type": "configuration_update", "model": "m"})
    with ModelServer() as server:
        assert hear("responses", post(server, "/responses", body), stream=False).text == "first"
        body["input"] += [{"type": "function_call", "name": "exec"}, {"type": "function_call_output"}]
        assert hear("responses", post(server, "/responses", body), stream=False).text == "second"


def test_token_counts_are_answered_and_logged() -> None:
    with ModelServer() as server:
        counted = post(server, "/s/foo/v1/messages/count_tokens", {"messages": ["x" * 400]}).json()["input_tokens"]
        assert 100 < counted < 120
        assert "totalTokens" in post(server, "/s/foo/v1beta/models/m:countTokens", {}).json()
        assert [row["api"] for row in server.list_requests("foo")] == ["count_tokens"] * 2
