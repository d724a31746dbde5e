"""OpenAI's chat completions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from mngr.testkit.modelserver.answer import Answer, event, new_id, pieces
from mngr.testkit.modelserver.request import Said, Turn, listed, schema_of, texts, within

_STOPS = {"max_tokens": "length", "refusal": "content_filter"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_TYPES = {400: "invalid_request_error", 401: "invalid_request_error", 429: "requests"}


def read(body: dict[str, Any]) -> Said:
    """What the body says."""
    messages = listed(body.get("messages"))
    functions = [schema_of(tool.get("function")) for tool in listed(body.get("tools"))]
    return Said(
        turns=tuple(Turn(str(m.get("role", "user")), texts(m.get("content"))) for m in messages),
        tools={str(f.get("name")): schema_of(f.get("parameters")) for f in functions if f},
        system="\n".join(texts(m.get("content")) for m in messages if _is_system(m)),
        schema=within(body, "response_format", "json_schema", "schema"),
    )


def sizes(body: dict[str, Any]) -> dict[str, Any]:
    """The parts whose size is measured."""
    messages = listed(body.get("messages"))
    return {
        "system": [m for m in messages if _is_system(m)],
        "tools": body.get("tools"),
        "messages": [m for m in messages if not _is_system(m)],
    }


def whole(answer: Answer) -> dict[str, Any]:
    """The answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.thinking is not None:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_call(name, json.dumps(given)) for name, given in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _stop(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def events(answer: Answer) -> Iterator[bytes]:
    """The answer as it is streamed."""
    head = _head(answer, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], stop: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": stop, "logprobs": None}
        return event({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(answer.thinking or ""):
        if piece:
            yield chunk({"reasoning_content": piece})
    for piece in pieces(answer.text or ""):
        if piece:
            yield chunk({"content": piece})
    for index, (name, given) in enumerate(answer.calls):
        yield chunk({"tool_calls": [{"index": index, **_call(name, "")}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": json.dumps(given)}}]})
    yield chunk({}, _stop(answer))
    if answer.counts:
        yield event({**head, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def error(status: int, kind: str | None, message: str) -> dict[str, Any]:
    """The body of an error."""
    kind = kind or _TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}}


def stream_error(kind: str, message: str) -> bytes:
    """An error inside a stream."""
    return event({"error": {"message": message, "type": kind, "param": None, "code": kind}})


def _is_system(message: dict[str, Any]) -> bool:
    return message.get("role") in ("system", "developer")


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": new_id("chatcmpl-"), "object": kind, "created": int(time.time()), "model": answer.model,
        "system_fingerprint": "fp_scripted",
    }  # fmt: skip


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": new_id("call_"), "type": "function", "function": {"name": name, "arguments": arguments}}


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt, "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip


def _stop(answer: Answer) -> str:
    if answer.stop:
        return _STOPS.get(answer.stop, answer.stop)
    return "tool_calls" if answer.calls else "stop"
