"""A client for each API, written with the standard library only."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mngr.testkit.modelserver import ModelServer

APIS = ("anthropic", "responses", "chat", "gemini")
SHELL = {"type": "object", "properties": {"command": {"type": "string"}}}


@dataclass(frozen=True)
class Answer:
    """The status, headers and body of a response."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    def json(self) -> Any:
        return json.loads(self.data)

    def events(self) -> list[dict[str, Any]]:
        """Return the data of each server-sent event."""
        lines = [line.strip() for line in self.data.decode().splitlines()]
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]


def post(
    server: ModelServer, path: str, body: Any, headers: Mapping[str, str] | None = None, timeout: float = 10
) -> Answer:
    """Send one request on its own connection. If the connection is cut, return the part that arrived."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, dict(headers or {}))
        response = connection.getresponse()
        try:
            body_bytes = response.read()
        except http.client.IncompleteRead as cut:
            body_bytes = cut.partial + b"<cut>"
        return Answer(response.status, dict(response.getheaders()), body_bytes)
    finally:
        connection.close()


def get(server: ModelServer, path: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def ask(
    server: ModelServer, text: str = "hi", *, api: str = "anthropic", session: str = "foo", stream: bool = False,
    tools: Mapping[str, Any] | None = None, turns: list[tuple[str, str]] | None = None, **more: Any,
) -> Answer:  # fmt: skip
    """Send a request as a client of an API does.

    `turns` are (role, text) after the first message, `tools` maps names to schemas.
    """
    path, body = request(api, [("user", text), *(turns or [])], {"Bash": SHELL} if tools is None else tools, stream)
    return post(server, f"/s/{session}{path}", {**body, **more})


def request(
    api: str, turns: list[tuple[str, str]], tools: Mapping[str, Any], stream: bool
) -> tuple[str, dict[str, Any]]:
    """Return the path and body of a request to an API."""
    if api == "anthropic":
        messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns]
        tool_list = [{"name": name, "input_schema": schema} for name, schema in tools.items()]
        return "/v1/messages", {
            "model": "m", "max_tokens": 9, "stream": stream, "system": "be brief", "messages": messages,
            "tools": tool_list,
        }  # fmt: skip
    if api == "chat":
        messages = [{"role": role, "content": text} for role, text in [("system", "be brief"), *turns]]
        functions = [{"name": name, "parameters": schema} for name, schema in tools.items()]
        return "/v1/chat/completions", {
            "model": "m", "stream": stream, "messages": messages, "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": function} for function in functions],
        }  # fmt: skip
    if api == "responses":
        items = [{"role": role, "content": [{"type": "input_text", "text": text}]} for role, text in turns]
        tool_list = [{"type": "function", "name": name, "parameters": schema} for name, schema in tools.items()]
        return "/v1/responses", {
            "model": "m", "stream": stream, "instructions": "be brief", "input": items, "tools": tool_list,
        }  # fmt: skip
    roles = {"assistant": "model"}
    contents = [{"role": roles.get(role, role), "parts": [{"text": text}]} for role, text in turns]
    functions = [{"name": name, "parametersJsonSchema": schema} for name, schema in tools.items()]
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/m:{verb}", {
        "contents": contents, "systemInstruction": {"parts": [{"text": "be brief"}]},
        "tools": [{"functionDeclarations": functions}] if functions else [],
    }  # fmt: skip


@dataclass(frozen=True)
class Heard:
    """The content of an answer in a form that all APIs share."""

    text: str
    thinking: str
    calls: list[tuple[str, Any]]
    stop: str
    usage: tuple[int, int]  # prompt, output


def hear(api: str, answer: Answer, *, stream: bool) -> Heard:
    """Assemble an answer as the client of the API does."""
    assert answer.status == 200, answer.data
    if stream:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
    return _HEARERS[api](answer.events() if stream else answer.json(), stream)


def _hear_anthropic(reply: Any, stream: bool) -> Heard:
    if stream:
        assert (reply[0]["type"], reply[-1]["type"]) == ("message_start", "message_stop")
        blocks: list[dict[str, Any]] = []
        for event in reply:
            if event["type"] == "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "json": ""})
            delta = event.get("delta", {})
            for key, target in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json")):
                if event["type"] == "content_block_delta" and key in delta:
                    blocks[event["index"]][target] += delta[key]
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["json"])
        final = reply[-2]
        stop, usage = final["delta"]["stop_reason"], final["usage"]
    else:
        blocks, stop, usage = reply["content"], reply["stop_reason"], reply["usage"]
    prompt = sum(value for key, value in usage.items() if key.endswith("input_tokens"))
    return Heard(
        "".join(b["text"] for b in blocks if b["type"] == "text"),
        "".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
        [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"],
        stop,
        (prompt, usage["output_tokens"]),
    )


def _hear_responses(reply: Any, stream: bool) -> Heard:
    text = None
    if stream:
        assert [event["sequence_number"] for event in reply] == list(range(len(reply)))
        assert reply[0]["type"] == "response.created"
        text = "".join(e["delta"] for e in reply if e["type"] == "response.output_text.delta")
        finished_items = [e["item"] for e in reply if e["type"] == "response.output_item.done"]
        reply = reply[-1]["response"]
        assert finished_items == reply["output"]
    items = reply["output"]
    whole = "".join(i["content"][0]["text"] for i in items if i["type"] == "message")
    assert text in (None, whole)
    calls = [(i["name"], json.loads(i["arguments"])) for i in items if i["type"] == "function_call"]
    calls += [(i["name"], i["input"]) for i in items if i["type"] == "custom_tool_call"]
    return Heard(
        whole,
        "".join(i["summary"][0]["text"] for i in items if i["type"] == "reasoning"),
        calls,
        reply["status"] if not reply["incomplete_details"] else reply["incomplete_details"]["reason"],
        (reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]),
    )


def _hear_chat(reply: Any, stream: bool) -> Heard:
    if not stream:
        message = reply["choices"][0]["message"]
        calls = [call["function"] for call in message.get("tool_calls", [])]
        text, thinking = message["content"] or "", message.get("reasoning_content", "")
        stop, usage = reply["choices"][0]["finish_reason"], reply["usage"]
    else:
        choices = [event["choices"][0] for event in reply if event["choices"]]
        deltas = [choice["delta"] for choice in choices]
        calls = []
        for delta in deltas:
            for part in delta.get("tool_calls", []):
                if "id" in part:
                    calls.append(dict(part["function"]))
                else:
                    calls[part["index"]]["arguments"] += part["function"]["arguments"]
        text = "".join(delta.get("content", "") for delta in deltas)
        thinking = "".join(delta.get("reasoning_content", "") for delta in deltas)
        stop, usage = choices[-1]["finish_reason"], reply[-1]["usage"]
    return Heard(
        text, thinking, [(call["name"], json.loads(call["arguments"])) for call in calls], stop,
        (usage["prompt_tokens"], usage["completion_tokens"]),
    )  # fmt: skip


def _hear_gemini(reply: Any, stream: bool) -> Heard:
    chunks = reply if stream else [reply]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    usage = chunks[-1]["usageMetadata"]
    return Heard(
        "".join(part.get("text", "") for part in parts if not part.get("thought")),
        "".join(part["text"] for part in parts if part.get("thought")),
        [(p["functionCall"]["name"], p["functionCall"]["args"]) for p in parts if "functionCall" in p],
        chunks[-1]["candidates"][0]["finishReason"],
        (usage["promptTokenCount"], usage["candidatesTokenCount"]),
    )


_HEARERS = {
    "anthropic": _hear_anthropic, "responses": _hear_responses, "chat": _hear_chat, "gemini": _hear_gemini,
}  # fmt: skip
