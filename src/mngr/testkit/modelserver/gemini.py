"""Google's generateContent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mngr.testkit.modelserver.answer import Answer, new_id, pieces
from mngr.testkit.modelserver.answer import event as plain_event
from mngr.testkit.modelserver.request import Said, Turn, listed, schema_of, texts, within

_STATUSES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
}  # fmt: skip
_STOPS = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}


def read(body: dict[str, Any]) -> Said:
    """What the body says."""
    turns: list[Turn] = []
    for message in listed(body.get("contents")):
        parts = listed(message.get("parts"))
        text = texts(parts)
        if message.get("role") == "model":
            turns.append(Turn("assistant", text))
            continue
        if any("functionResponse" in part for part in parts):
            turns.append(Turn("tool"))
        if text:
            turns.append(Turn("user", text))
    wanted = schema_of(body.get("generationConfig"))
    functions = [f for tool in listed(body.get("tools")) for f in listed(tool.get("functionDeclarations"))]
    return Said(
        turns=tuple(turns),
        tools={
            str(f.get("name")): schema_of(f.get("parameters") or f.get("parametersJsonSchema"))
            for f in functions
        },
        system=texts(within(body, "systemInstruction", "parts")),
        schema=wanted.get("responseJsonSchema") or wanted.get("responseSchema"),
    )


def sizes(body: dict[str, Any]) -> dict[str, Any]:
    """The parts whose size is measured."""
    return {
        "system": body.get("systemInstruction"),
        "tools": body.get("tools"),
        "messages": body.get("contents"),
    }


def whole(answer: Answer) -> dict[str, Any]:
    """The answer in one piece."""
    parts = [{"text": answer.thinking, "thought": True}] if answer.thinking is not None else []
    parts += [{"text": answer.text}] if answer.text is not None else []
    return _chunk(answer, [*parts, *_calls(answer)], new_id(""), stop=_stop(answer))


def events(answer: Answer) -> Iterator[bytes]:
    """The answer as it is streamed."""
    name = new_id("")
    for piece in pieces(answer.thinking or ""):
        if piece:
            yield event(_chunk(answer, [{"text": piece, "thought": True}], name))
    for piece in pieces(answer.text or ""):
        if piece:
            yield event(_chunk(answer, [{"text": piece}], name))
    yield event(_chunk(answer, _calls(answer) or [{"text": ""}], name, stop=_stop(answer)))


def error(status: int, kind: str | None, message: str) -> dict[str, Any]:
    """The body of an error."""
    name = kind or _STATUSES.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": name}}


def stream_error(kind: str, message: str) -> bytes:
    """An error inside a stream."""
    return event(error(503, kind, message))


def event(data: dict[str, Any]) -> bytes:
    """One server-sent event, with the line ends of this API."""
    return plain_event(data).replace(b"\n", b"\r\n")


def _chunk(
    answer: Answer, parts: list[dict[str, Any]], name: str, *, stop: str | None = None
) -> dict[str, Any]:
    usage = answer.usage
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.prompt, "candidatesTokenCount": usage.output,
            "cachedContentTokenCount": usage.cache_read, "totalTokenCount": usage.prompt + usage.output,
        },
        "modelVersion": answer.model,
        "responseId": name,
    }  # fmt: skip


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": name, "args": given}} for name, given in answer.calls]


def _stop(answer: Answer) -> str:
    return _STOPS.get(answer.stop, answer.stop) if answer.stop else "STOP"
