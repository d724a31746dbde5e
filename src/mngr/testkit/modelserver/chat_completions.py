"""The Chat Completions API of OpenAI."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from mngr.base.json_structs import encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import get_object, get_objects
from mngr.testkit.modelserver.answer import ModelAnswer, format_sse_event, new_id, split_text
from mngr.testkit.modelserver.request import (
    ConversationTurn,
    MeasuredParts,
    ParsedBody,
    find_nested,
    join_texts,
    parse_parameters,
)

_STOP_REASONS = {"max_tokens": "length", "refusal": "content_filter"}
_ERROR_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_ERROR_TYPES = {400: "invalid_request_error", 401: "invalid_request_error", 429: "requests"}


class CompletionHead(Struct):
    """The fields that a response and all its chunks share."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str = "fp_scripted"


class FunctionCall(Struct):
    """The function of a tool call, with its arguments as JSON text."""

    name: str
    arguments: str


class CompletionToolCall(Struct):
    """A call of a client's function."""

    id: str
    type: str = "function"
    function: FunctionCall


def parse_request(body: dict[str, object]) -> ParsedBody:
    """Return the conversation, tools and schema in a request body."""
    messages = get_objects(body, "messages")
    functions = [get_object(tool, "function") for tool in get_objects(body, "tools")]
    turns = [ConversationTurn(str(m.get("role", "user")), join_texts(m.get("content"))) for m in messages]
    return ParsedBody(
        turns=tuple(turns),
        tools={str(f.get("name")): parse_parameters(f.get("parameters")) for f in functions if f},
        system="\n".join(join_texts(m.get("content")) for m in messages if _is_system(m)),
        schema=find_nested(body, "response_format", "json_schema", "schema"),
    )


def select_measured_parts(body: dict[str, object]) -> MeasuredParts:
    """Return the parts of a body whose size the log shows."""
    messages = get_objects(body, "messages")
    return MeasuredParts(
        system=[m for m in messages if _is_system(m)],
        tools=body.get("tools"),
        messages=[m for m in messages if not _is_system(m)],
    )


def build_response(answer: ModelAnswer) -> object:
    """Return the answer as the JSON of one response."""
    message: dict[str, object] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.thinking is not None:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_build_call(call.name, json.dumps(call.input)) for call in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _get_stop_reason(answer)}
    head = _build_head(answer, "chat.completion")
    return encode({**head.to_dict(), "choices": [choice], "usage": _build_usage(answer)})


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    head = _build_head(answer, "chat.completion.chunk").to_dict()
    for choice in _iter_choices(answer):
        yield format_sse_event({**head, "choices": [choice]})
    if answer.is_usage_requested:
        yield format_sse_event({**head, "choices": [], "usage": _build_usage(answer)})
    yield b"data: [DONE]\n\n"


def build_error(status: int, kind: str | None, message: str) -> object:
    """Return the body of an error response."""
    kind = kind or _ERROR_TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": _ERROR_CODES.get(status)}}


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    return format_sse_event({"error": {"message": message, "type": kind, "param": None, "code": kind}})


def _is_system(message: dict[str, object]) -> bool:
    return message.get("role") in ("system", "developer")


def _iter_choices(answer: ModelAnswer) -> Iterator[object]:
    """Yield the choice in each chunk of a streamed answer."""
    for delta in _iter_deltas(answer):
        yield {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
    yield {"index": 0, "delta": {}, "finish_reason": _get_stop_reason(answer), "logprobs": None}


def _iter_deltas(answer: ModelAnswer) -> Iterator[object]:
    """Yield the pieces of the message."""
    yield {"role": "assistant", "content": ""}
    if answer.thinking:
        for piece in split_text(answer.thinking):
            yield {"reasoning_content": piece}
    if answer.text:
        for piece in split_text(answer.text):
            yield {"content": piece}
    for index, call in enumerate(answer.calls):
        yield {"tool_calls": [{"index": index, **_build_call(call.name, "").to_dict()}]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": json.dumps(call.input)}}]}


def _build_head(answer: ModelAnswer, kind: str) -> CompletionHead:
    return CompletionHead(id=new_id("chatcmpl-"), object=kind, created=int(time.time()), model=answer.model)


def _build_call(name: str, arguments: str) -> CompletionToolCall:
    return CompletionToolCall(id=new_id("call_"), function=FunctionCall(name=name, arguments=arguments))


def _build_usage(answer: ModelAnswer) -> object:
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt_tokens + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _get_stop_reason(answer: ModelAnswer) -> str:
    if answer.stop_reason:
        return _STOP_REASONS.get(answer.stop_reason, answer.stop_reason)
    return "tool_calls" if answer.calls else "stop"
