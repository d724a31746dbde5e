"""Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mngr.testkit.modelserver.answer import Answer, event, new_id, pieces
from mngr.testkit.modelserver.request import Said, Turn, listed, schema_of, texts, within

_ERRORS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


def read(body: dict[str, Any]) -> Said:
    """What the body says."""
    turns: list[Turn] = []
    for message in listed(body.get("messages")):
        role, content = str(message.get("role", "user")), message.get("content")
        text = texts(content)
        if role == "assistant":
            turns.append(Turn(role, text))
            continue
        if any(part.get("type") == "tool_result" for part in listed(content)):
            turns.append(Turn("tool"))
        if text:
            turns.append(Turn(role, text))
    return Said(
        turns=tuple(turns),
        tools={
            str(tool.get("name", tool.get("type"))): schema_of(tool.get("input_schema"))
            for tool in listed(body.get("tools"))
        },
        system=texts(body.get("system")),
        schema=within(body, "output_config", "format", "schema"),
    )


def sizes(body: dict[str, Any]) -> dict[str, Any]:
    """The parts whose size is measured."""
    return {"system": body.get("system"), "tools": body.get("tools"), "messages": body.get("messages")}


def whole(answer: Answer) -> dict[str, Any]:
    """The answer in one piece."""
    return {**_message(answer), "content": _blocks(answer), "stop_reason": _stop(answer)}


def events(answer: Answer) -> Iterator[bytes]:
    """The answer as it is streamed."""
    start = _message(answer)
    usage = start["usage"]
    yield _event("message_start", message={**start, "usage": {**usage, "output_tokens": 1}})
    yield _event("ping")
    for index, block in enumerate(_blocks(answer)):
        yield from _block_events(index, block)
    yield _event("message_delta", delta={"stop_reason": _stop(answer), "stop_sequence": None}, usage=usage)
    yield _event("message_stop")


def error(status: int, kind: str | None, message: str) -> dict[str, Any]:
    """The body of an error."""
    kind = kind or _ERRORS.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": new_id("req_")}


def stream_error(kind: str, message: str) -> bytes:
    """An error inside a stream."""
    return _event("error", error={"type": kind, "message": message})


def _event(kind: str, **more: Any) -> bytes:
    return event({"type": kind, **more}, kind)


def _message(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "id": new_id("msg_"), "type": "message", "role": "assistant", "model": answer.model, "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read, "output_tokens": usage.output, "service_tier": "standard",
        },
    }  # fmt: skip


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking is not None:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": new_id("sig_")})
    if answer.text is not None:
        blocks.append({"type": "text", "text": answer.text})
    for name, given in answer.calls:
        blocks.append({"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": given})
    return blocks


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    empty: dict[str, Any]
    if block["type"] == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "text":
        empty = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    else:
        empty = {**block, "input": {}}
        given = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(given, 48)]
    yield _event("content_block_start", index=index, content_block=empty)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _stop(answer: Answer) -> str:
    return answer.stop or ("tool_use" if answer.calls else "end_turn")
