"""OpenAI's Responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from mngr.testkit.modelserver import chat
from mngr.testkit.modelserver.answer import Answer, event, new_id, pieces
from mngr.testkit.modelserver.request import Said, Turn, listed, schema_of, texts, within
from mngr.testkit.modelserver.tools import FREEFORM

error = chat.error
_STOPS = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


def read(body: dict[str, Any]) -> Said:
    """What the body says."""
    turns: list[Turn] = []
    for item in _items(body):
        kind = str(item.get("type", "message"))
        if kind == "message":
            turns.append(Turn(str(item.get("role", "user")), texts(item.get("content"))))
        elif kind.endswith("_output"):
            turns.append(Turn("tool"))
        elif kind.endswith("_call") or kind == "reasoning":  # what else there is, a client says of itself
            turns.append(Turn("assistant"))
    return Said(
        turns=tuple(turns),
        tools=dict(found for tool in _tools(body) for found in _named(tool)),
        system=texts(body.get("instructions")),
        schema=within(body, "text", "format", "schema"),
    )


def sizes(body: dict[str, Any]) -> dict[str, Any]:
    """The parts whose size is measured."""
    items = [item for item in _items(body) if item.get("type") != "additional_tools"]
    system = [item for item in items if item.get("role") in ("system", "developer")]
    return {
        "system": [part for part in (body.get("instructions"), *system) if part],
        "tools": _tools(body),
        "messages": [item for item in items if item.get("role") not in ("system", "developer")],
    }


def whole(answer: Answer) -> dict[str, Any]:
    """The answer in one piece."""
    return _finished(answer, new_id("resp_"), _output(answer))


def events(answer: Answer) -> Iterator[bytes]:
    """The answer as it is streamed."""
    name, items = new_id("resp_"), _output(answer)
    for number, (kind, more) in enumerate(_steps(answer, name, items)):
        yield event({"type": kind, "sequence_number": number, **more}, kind)


def stream_error(kind: str, message: str) -> bytes:
    """An error inside a stream."""
    response = {
        "id": new_id("resp_"), "object": "response", "status": "failed", "output": [],
        "error": {"code": kind, "message": message},
    }  # fmt: skip
    return event({"type": "response.failed", "sequence_number": 99, "response": response}, "response.failed")


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else listed(given)


def _tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools on offer; Codex with its newest models has them inside the input."""
    found = listed(body.get("tools"))
    for item in _items(body):
        if item.get("type") == "additional_tools":
            for tool in listed(item.get("tools")):
                found += listed(tool.get("tools")) if tool.get("name") == "functions" else [tool]
    return found


def _named(tool: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if tool.get("type") == "namespace":
        for inner in listed(tool.get("tools")):
            yield f"{tool.get('name', '')}{inner.get('name', '')}", schema_of(inner.get("parameters"))
    else:
        yield str(tool.get("name", tool.get("type"))), schema_of(tool.get("parameters")) or FREEFORM


def _output(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.thinking is not None:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        items.append({"type": "reasoning", "id": new_id("rs_"), "summary": summary})
    if answer.text is not None:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        message = {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed"}
        items.append({**message, "content": content})
    for name, given in answer.calls:
        call = {"call_id": new_id("call_"), "name": name, "status": "completed"}
        if isinstance(given, str):
            items.append({"type": "custom_tool_call", "id": new_id("ctc_"), "input": given, **call})
        else:
            items.append(
                {"type": "function_call", "id": new_id("fc_"), "arguments": json.dumps(given), **call}
            )
    return items


def _head(answer: Answer, name: str, status: str) -> dict[str, Any]:
    return {
        "id": name, "object": "response", "created_at": int(time.time()), "status": status, "model": answer.model,
        "output": [], "error": None, "incomplete_details": None, "parallel_tool_calls": True, "tools": [],
        "usage": None,
    }  # fmt: skip


def _finished(answer: Answer, name: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    usage, reason = answer.usage, _STOPS.get(answer.stop or "")
    return {
        **_head(answer, name, "incomplete" if reason else "completed"),
        "output": items,
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": {
            "input_tokens": usage.prompt, "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt + usage.output,
        },
    }  # fmt: skip


def _steps(answer: Answer, name: str, items: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": _head(answer, name, "in_progress")}
    for index, item in enumerate(items):
        at = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            yield _added(index, item, content=[])
            yield from _text_steps({**at, "content_index": 0}, item["content"][0])
        elif item["type"] == "reasoning":
            yield _added(index, item, summary=[])
            yield from _thought_steps({**at, "summary_index": 0}, item["summary"][0])
        elif item["type"] == "function_call":
            yield _added(index, item, arguments="")
            yield "response.function_call_arguments.delta", {**at, "delta": item["arguments"]}
            yield "response.function_call_arguments.done", {**at, "arguments": item["arguments"]}
        else:
            yield _added(index, item, input="")
            yield "response.custom_tool_call_input.delta", {**at, "delta": item["input"]}
            yield "response.custom_tool_call_input.done", {**at, "input": item["input"]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    done = _finished(answer, name, items)
    yield f"response.{done['status']}", {"response": done}


def _added(index: int, item: dict[str, Any], **empty: Any) -> tuple[str, dict[str, Any]]:
    begun = {**item, **empty, "status": "in_progress"}
    return "response.output_item.added", {"output_index": index, "item": begun}


def _text_steps(at: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", {**at, "delta": piece}
    yield "response.output_text.done", {**at, "text": part["text"]}
    yield "response.content_part.done", {**at, "part": part}


def _thought_steps(at: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
    yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**at, "part": part}
