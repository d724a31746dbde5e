"""The Chat Completions API of OpenAI."""

from __future__ import annotations

import json
import time
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

_STOP_REASONS = {"max_tokens": "length", "refusal": "content_filter"}
_ERROR_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_ERROR_TYPES = {400: "invalid_request_error", 401: "invalid_request_error", 429: "requests"}


def parse_request(body: dict[str, Any]) -> ParsedBody:
    """Return the conversation, tools and schema in a request body."""
    messages = list_objects(body.get("messages"))
    functions = [get_schema(tool.get("function")) for tool in list_objects(body.get("tools"))]
    return ParsedBody(
        turns=tuple(ConversationTurn(str(m.get("role", "user")), join_texts(m.get("content"))) for m in messages),
        tools={str(f.get("name")): get_schema(f.get("parameters")) for f in functions if f},
        system="\n".join(join_texts(m.get("content")) for m in messages if _is_system(m)),
        schema=find_nested(body, "response_format", "json_schema", "schema"),
    )


def select_measured_parts(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a body whose size the log shows."""
    messages = list_objects(body.get("messages"))
    return {
        "system": [m for m in messages if _is_system(m)],
        "tools": body.get("tools"),
        "messages": [m for m in messages if not _is_system(m)],
    }


def build_response(answer: ModelAnswer) -> dict[str, Any]:
    """Return the answer as one response."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.thinking is not None:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_build_call(name, json.dumps(arguments)) for name, arguments in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _get_stop_reason(answer)}
    return {**_build_head(answer, "chat.completion"), "choices": [choice], "usage": _build_usage(answer)}


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    head = _build_head(answer, "chat.completion.chunk")

    def format_chunk(delta: dict[str, Any], stop_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": stop_reason, "logprobs": None}
        return format_sse_event({**head, "choices": [choice]})

    yield format_chunk({"role": "assistant", "content": ""})
    for piece in split_text(answer.thinking or ""):
        if piece:
            yield format_chunk({"reasoning_content": piece})
    for piece in split_text(answer.text or ""):
        if piece:
            yield format_chunk({"content": piece})
    for index, (name, arguments) in enumerate(answer.calls):
        yield format_chunk({"tool_calls": [{"index": index, **_build_call(name, "")}]})
        yield format_chunk({"tool_calls": [{"index": index, "function": {"arguments": json.dumps(arguments)}}]})
    yield format_chunk({}, _get_stop_reason(answer))
    if answer.is_usage_requested:
        yield format_sse_event({**head, "choices": [], "usage": _build_usage(answer)})
    yield b"data: [DONE]\n\n"


def build_error(status: int, kind: str | None, message: str) -> dict[str, Any]:
    """Return the body of an error response."""
    kind = kind or _ERROR_TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": _ERROR_CODES.get(status)}}


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    return format_sse_event({"error": {"message": message, "type": kind, "param": None, "code": kind}})


def _is_system(message: dict[str, Any]) -> bool:
    return message.get("role") in ("system", "developer")


def _build_head(answer: ModelAnswer, kind: str) -> dict[str, Any]:
    return {
        "id": new_id("chatcmpl-"), "object": kind, "created": int(time.time()), "model": answer.model,
        "system_fingerprint": "fp_scripted",
    }  # fmt: skip


def _build_call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": new_id("call_"), "type": "function", "function": {"name": name, "arguments": arguments}}


def _build_usage(answer: ModelAnswer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.output,
        "total_tokens": usage.prompt_tokens + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip


def _get_stop_reason(answer: ModelAnswer) -> str:
    if answer.stop_reason:
        return _STOP_REASONS.get(answer.stop_reason, answer.stop_reason)
    return "tool_calls" if answer.calls else "stop"
