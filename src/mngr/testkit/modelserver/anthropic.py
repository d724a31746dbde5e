"""The Messages API of Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mngr.testkit.modelserver.answer import ModelAnswer, format_sse_event, new_id, split_text
from mngr.testkit.modelserver.request import (
    ConversationTurn,
    ParsedBody,
    find_nested,
    get_schema,
    join_texts,
    list_objects,
)

_ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


def parse_request(body: dict[str, Any]) -> ParsedBody:
    """Return the conversation, tools and schema in a request body."""
    turns: list[ConversationTurn] = []
    for message in list_objects(body.get("messages")):
        role, content = str(message.get("role", "user")), message.get("content")
        text = join_texts(content)
        if role == "assistant":
            turns.append(ConversationTurn(role, text))
            continue
        if any(part.get("type") == "tool_result" for part in list_objects(content)):
            turns.append(ConversationTurn("tool"))
        if text:
            turns.append(ConversationTurn(role, text))
    return ParsedBody(
        turns=tuple(turns),
        tools={
            str(tool.get("name", tool.get("type"))): get_schema(tool.get("input_schema"))
            for tool in list_objects(body.get("tools"))
        },
        system=join_texts(body.get("system")),
        schema=find_nested(body, "output_config", "format", "schema"),
    )


def select_measured_parts(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a body whose size the log shows."""
    return {"system": body.get("system"), "tools": body.get("tools"), "messages": body.get("messages")}


def build_response(answer: ModelAnswer) -> dict[str, Any]:
    """Return the answer as one response."""
    return {
        **_build_message(answer),
        "content": _build_blocks(answer),
        "stop_reason": _get_stop_reason(answer),
    }


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    start = _build_message(answer)
    usage = start["usage"]
    yield _format_event("message_start", message={**start, "usage": {**usage, "output_tokens": 1}})
    yield _format_event("ping")
    for index, block in enumerate(_build_blocks(answer)):
        yield from _iter_block_events(index, block)
    yield _format_event(
        "message_delta", delta={"stop_reason": _get_stop_reason(answer), "stop_sequence": None}, usage=usage
    )
    yield _format_event("message_stop")


def build_error(status: int, kind: str | None, message: str) -> dict[str, Any]:
    """Return the body of an error response."""
    kind = kind or _ERROR_TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": new_id("req_")}


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    return _format_event("error", error={"type": kind, "message": message})


def _format_event(kind: str, **fields: Any) -> bytes:
    return format_sse_event({"type": kind, **fields}, kind)


def _build_message(answer: ModelAnswer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "id": new_id("msg_"), "type": "message", "role": "assistant", "model": answer.model, "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read, "output_tokens": usage.output, "service_tier": "standard",
        },
    }  # fmt: skip


def _build_blocks(answer: ModelAnswer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking is not None:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": new_id("sig_")})
    if answer.text is not None:
        blocks.append({"type": "text", "text": answer.text})
    for name, arguments in answer.calls:
        blocks.append({"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": arguments})
    return blocks


def _iter_block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    empty: dict[str, Any]
    if block["type"] == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in split_text(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "text":
        empty = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in split_text(block["text"])]
    else:
        empty = {**block, "input": {}}
        arguments = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in split_text(arguments, 48)]
    yield _format_event("content_block_start", index=index, content_block=empty)
    for delta in deltas:
        yield _format_event("content_block_delta", index=index, delta=delta)
    yield _format_event("content_block_stop", index=index)


def _get_stop_reason(answer: ModelAnswer) -> str:
    return answer.stop_reason or ("tool_use" if answer.calls else "end_turn")
