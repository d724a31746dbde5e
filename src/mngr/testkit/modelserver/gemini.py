"""The generateContent API of Google."""

from __future__ import annotations

from collections.abc import Iterator

from mngr.base.model import Struct
from mngr.base.untrusted_json import get_object, get_objects
from mngr.testkit.modelserver.answer import ModelAnswer, ToolCall, new_id, split_text
from mngr.testkit.modelserver.answer import format_sse_event as plain_event
from mngr.testkit.modelserver.request import (
    ConversationTurn,
    MeasuredParts,
    ParsedBody,
    find_nested,
    join_texts,
    parse_parameters,
)

_ERROR_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_STOP_REASONS = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}


class ContentPart(Struct):
    """A part of the model's answer: a text, a thought or a function call."""

    text: str = ""
    is_thought: bool = False
    call: ToolCall | None = None

    def to_json(self) -> object:
        """Return the part as the API writes it."""
        if self.call is not None:
            return {"functionCall": {"name": self.call.name, "args": self.call.input}}
        if self.is_thought:
            return {"text": self.text, "thought": True}
        return {"text": self.text}


def parse_request(body: dict[str, object]) -> ParsedBody:
    """Return the conversation, tools and schema in a request body."""
    turns: list[ConversationTurn] = []
    for message in get_objects(body, "contents"):
        turns += _parse_message(message)
    config = get_object(body, "generationConfig")
    functions = [f for tool in get_objects(body, "tools") for f in get_objects(tool, "functionDeclarations")]
    return ParsedBody(
        turns=tuple(turns),
        tools={
            str(f.get("name")): parse_parameters(f.get("parameters") or f.get("parametersJsonSchema"))
            for f in functions
        },
        system=join_texts(find_nested(body, "systemInstruction", "parts")),
        schema=config.get("responseJsonSchema") or config.get("responseSchema"),
    )


def select_measured_parts(body: dict[str, object]) -> MeasuredParts:
    """Return the parts of a body whose size the log shows."""
    return MeasuredParts(system=body.get("systemInstruction"), tools=body.get("tools"), messages=body.get("contents"))


def build_response(answer: ModelAnswer) -> object:
    """Return the answer as the JSON of one response."""
    parts: list[ContentPart] = []
    if answer.thinking is not None:
        parts.append(ContentPart(text=answer.thinking, is_thought=True))
    if answer.text is not None:
        parts.append(ContentPart(text=answer.text))
    return _build_chunk(answer, [*parts, *_build_calls(answer)], new_id(""), stop=_get_stop_reason(answer))


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    response_id = new_id("")
    for part in _iter_text_parts(answer):
        yield format_sse_event(_build_chunk(answer, [part], response_id))
    last_parts = _build_calls(answer) or [ContentPart()]
    yield format_sse_event(_build_chunk(answer, last_parts, response_id, stop=_get_stop_reason(answer)))


def build_error(status: int, kind: str | None, message: str) -> object:
    """Return the body of an error response."""
    status_name = kind or _ERROR_STATUSES.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": status_name}}


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    return format_sse_event(build_error(503, kind, message))


def format_sse_event(data: object) -> bytes:
    """Return one server-sent event with the line ends of this API."""
    return plain_event(data).replace(b"\n", b"\r\n")


def _parse_message(message: dict[str, object]) -> Iterator[ConversationTurn]:
    parts = get_objects(message, "parts")
    text = join_texts(parts)
    if message.get("role") == "model":
        yield ConversationTurn("assistant", text)
        return
    if any("functionResponse" in part for part in parts):
        yield ConversationTurn("tool")
    if text:
        yield ConversationTurn("user", text)


def _iter_text_parts(answer: ModelAnswer) -> Iterator[ContentPart]:
    """Yield the pieces of the thought and of the text."""
    if answer.thinking:
        for piece in split_text(answer.thinking):
            yield ContentPart(text=piece, is_thought=True)
    if answer.text:
        for piece in split_text(answer.text):
            yield ContentPart(text=piece)


def _build_chunk(answer: ModelAnswer, parts: list[ContentPart], response_id: str, *, stop: str | None = None) -> object:
    usage = answer.usage
    content = {"role": "model", "parts": [part.to_json() for part in parts]}
    candidate: dict[str, object] = {"content": content, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.prompt_tokens,
            "candidatesTokenCount": usage.output,
            "cachedContentTokenCount": usage.cache_read,
            "totalTokenCount": usage.prompt_tokens + usage.output,
        },
        "modelVersion": answer.model,
        "responseId": response_id,
    }


def _build_calls(answer: ModelAnswer) -> list[ContentPart]:
    return [ContentPart(call=call) for call in answer.calls]


def _get_stop_reason(answer: ModelAnswer) -> str:
    return _STOP_REASONS.get(answer.stop_reason, answer.stop_reason) if answer.stop_reason else "STOP"
