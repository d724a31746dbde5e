"""The generateContent API of Google."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mngr.testkit.modelserver.answer import ModelAnswer, new_id, split_text
from mngr.testkit.modelserver.answer import format_sse_event as plain_event
from mngr.testkit.modelserver.request import (
    ConversationTurn,
    ParsedBody,
    find_nested,
    get_schema,
    join_texts,
    list_objects,
)

_ERROR_STATUSES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
}  # fmt: skip
_STOP_REASONS = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}


def parse_request(body: dict[str, Any]) -> ParsedBody:
    """Return the conversation, tools and schema in a request body."""
    turns: list[ConversationTurn] = []
    for message in list_objects(body.get("contents")):
        parts = list_objects(message.get("parts"))
        text = join_texts(parts)
        if message.get("role") == "model":
            turns.append(ConversationTurn("assistant", text))
            continue
        if any("functionResponse" in part for part in parts):
            turns.append(ConversationTurn("tool"))
        if text:
            turns.append(ConversationTurn("user", text))
    generation_config = get_schema(body.get("generationConfig"))
    functions = [f for tool in list_objects(body.get("tools")) for f in list_objects(tool.get("functionDeclarations"))]
    return ParsedBody(
        turns=tuple(turns),
        tools={str(f.get("name")): get_schema(f.get("parameters") or f.get("parametersJsonSchema")) for f in functions},
        system=join_texts(find_nested(body, "systemInstruction", "parts")),
        schema=generation_config.get("responseJsonSchema") or generation_config.get("responseSchema"),
    )


def select_measured_parts(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a body whose size the log shows."""
    return {
        "system": body.get("systemInstruction"),
        "tools": body.get("tools"),
        "messages": body.get("contents"),
    }


def build_response(answer: ModelAnswer) -> dict[str, Any]:
    """Return the answer as one response."""
    parts = [{"text": answer.thinking, "thought": True}] if answer.thinking is not None else []
    parts += [{"text": answer.text}] if answer.text is not None else []
    return _build_chunk(answer, [*parts, *_build_calls(answer)], new_id(""), stop=_get_stop_reason(answer))


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    response_id = new_id("")
    for piece in split_text(answer.thinking or ""):
        if piece:
            yield format_sse_event(_build_chunk(answer, [{"text": piece, "thought": True}], response_id))
    for piece in split_text(answer.text or ""):
        if piece:
            yield format_sse_event(_build_chunk(answer, [{"text": piece}], response_id))
    yield format_sse_event(
        _build_chunk(answer, _build_calls(answer) or [{"text": ""}], response_id, stop=_get_stop_reason(answer))
    )


def build_error(status: int, kind: str | None, message: str) -> dict[str, Any]:
    """Return the body of an error response."""
    status_name = kind or _ERROR_STATUSES.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": status_name}}


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    return format_sse_event(build_error(503, kind, message))


def format_sse_event(data: dict[str, Any]) -> bytes:
    """Return one server-sent event with the line ends of this API."""
    return plain_event(data).replace(b"\n", b"\r\n")


def _build_chunk(
    answer: ModelAnswer, parts: list[dict[str, Any]], response_id: str, *, stop: str | None = None
) -> dict[str, Any]:
    usage = answer.usage
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.prompt_tokens, "candidatesTokenCount": usage.output,
            "cachedContentTokenCount": usage.cache_read, "totalTokenCount": usage.prompt_tokens + usage.output,
        },
        "modelVersion": answer.model,
        "responseId": response_id,
    }  # fmt: skip


def _build_calls(answer: ModelAnswer) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": name, "args": arguments}} for name, arguments in answer.calls]


def _get_stop_reason(answer: ModelAnswer) -> str:
    return _STOP_REASONS.get(answer.stop_reason, answer.stop_reason) if answer.stop_reason else "STOP"
