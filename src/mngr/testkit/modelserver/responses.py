"""OpenAI's Responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from mngr.testkit.modelserver import chat_completions
from mngr.testkit.modelserver.answer import ModelAnswer, format_sse_event, new_id, split_text
from mngr.testkit.modelserver.request import (
    ConversationTurn,
    ParsedBody,
    find_nested,
    get_schema,
    join_texts,
    list_objects,
)
from mngr.testkit.modelserver.tools import FREEFORM_SCHEMA

build_error = chat_completions.build_error
_STOP_REASONS = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


def parse_request(body: dict[str, Any]) -> ParsedBody:
    """What the body says."""
    turns: list[ConversationTurn] = []
    for item in _list_items(body):
        kind = str(item.get("type", "message"))
        if kind == "message":
            turns.append(ConversationTurn(str(item.get("role", "user")), join_texts(item.get("content"))))
        elif kind.endswith("_output"):
            turns.append(ConversationTurn("tool"))
        elif kind.endswith("_call") or kind == "reasoning":  # what else there is, a client says of itself
            turns.append(ConversationTurn("assistant"))
    return ParsedBody(
        turns=tuple(turns),
        tools=dict(found for tool in _list_tools(body) for found in _iter_named_tools(tool)),
        system=join_texts(body.get("instructions")),
        schema=find_nested(body, "text", "format", "schema"),
    )


def select_measured_parts(body: dict[str, Any]) -> dict[str, Any]:
    """The parts whose size is measured."""
    items = [item for item in _list_items(body) if item.get("type") != "additional_tools"]
    system = [item for item in items if item.get("role") in ("system", "developer")]
    return {
        "system": [part for part in (body.get("instructions"), *system) if part],
        "tools": _list_tools(body),
        "messages": [item for item in items if item.get("role") not in ("system", "developer")],
    }


def build_response(answer: ModelAnswer) -> dict[str, Any]:
    """The answer in one piece."""
    return _build_finished_response(answer, new_id("resp_"), _build_output(answer))


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """The answer as it is streamed."""
    name, items = new_id("resp_"), _build_output(answer)
    for number, (kind, more) in enumerate(_iter_stream_steps(answer, name, items)):
        yield format_sse_event({"type": kind, "sequence_number": number, **more}, kind)


def build_stream_error(kind: str, message: str) -> bytes:
    """An error inside a stream."""
    response = {
        "id": new_id("resp_"), "object": "response", "status": "failed", "output": [],
        "error": {"code": kind, "message": message},
    }  # fmt: skip
    return format_sse_event({"type": "response.failed", "sequence_number": 99, "response": response}, "response.failed")


def _list_items(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else list_objects(given)


def _list_tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools on offer; Codex with its newest models has them inside the input."""
    found = list_objects(body.get("tools"))
    for item in _list_items(body):
        if item.get("type") == "additional_tools":
            for tool in list_objects(item.get("tools")):
                found += list_objects(tool.get("tools")) if tool.get("name") == "functions" else [tool]
    return found


def _iter_named_tools(tool: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if tool.get("type") == "namespace":
        for inner in list_objects(tool.get("tools")):
            yield f"{tool.get('name', '')}{inner.get('name', '')}", get_schema(inner.get("parameters"))
    else:
        yield str(tool.get("name", tool.get("type"))), get_schema(tool.get("parameters")) or FREEFORM_SCHEMA


def _build_output(answer: ModelAnswer) -> list[dict[str, Any]]:
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
            items.append({"type": "function_call", "id": new_id("fc_"), "arguments": json.dumps(given), **call})
    return items


def _build_head(answer: ModelAnswer, name: str, status: str) -> dict[str, Any]:
    return {
        "id": name, "object": "response", "created_at": int(time.time()), "status": status, "model": answer.model,
        "output": [], "error": None, "incomplete_details": None, "parallel_tool_calls": True, "tools": [],
        "usage": None,
    }  # fmt: skip


def _build_finished_response(answer: ModelAnswer, name: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    usage, reason = answer.usage, _STOP_REASONS.get(answer.stop_reason or "")
    return {
        **_build_head(answer, name, "incomplete" if reason else "completed"),
        "output": items,
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": {
            "input_tokens": usage.prompt_tokens, "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.output,
        },
    }  # fmt: skip


def _iter_stream_steps(
    answer: ModelAnswer, name: str, items: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": _build_head(answer, name, "in_progress")}
    for index, item in enumerate(items):
        at = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            yield _build_added_event(index, item, content=[])
            yield from _iter_text_steps({**at, "content_index": 0}, item["content"][0])
        elif item["type"] == "reasoning":
            yield _build_added_event(index, item, summary=[])
            yield from _iter_thought_steps({**at, "summary_index": 0}, item["summary"][0])
        elif item["type"] == "function_call":
            yield _build_added_event(index, item, arguments="")
            yield "response.function_call_arguments.delta", {**at, "delta": item["arguments"]}
            yield "response.function_call_arguments.done", {**at, "arguments": item["arguments"]}
        else:
            yield _build_added_event(index, item, input="")
            yield "response.custom_tool_call_input.delta", {**at, "delta": item["input"]}
            yield "response.custom_tool_call_input.done", {**at, "input": item["input"]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    done = _build_finished_response(answer, name, items)
    yield f"response.{done['status']}", {"response": done}


def _build_added_event(index: int, item: dict[str, Any], **empty: Any) -> tuple[str, dict[str, Any]]:
    begun = {**item, **empty, "status": "in_progress"}
    return "response.output_item.added", {"output_index": index, "item": begun}


def _iter_text_steps(at: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in split_text(part["text"]):
        yield "response.output_text.delta", {**at, "delta": piece}
    yield "response.output_text.done", {**at, "text": part["text"]}
    yield "response.content_part.done", {**at, "part": part}


def _iter_thought_steps(at: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
    for piece in split_text(part["text"]):
        yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
    yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**at, "part": part}
