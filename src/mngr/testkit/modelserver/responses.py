"""The Responses API of OpenAI."""

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
    """Return the conversation, tools and schema in a request body."""
    turns: list[ConversationTurn] = []
    for item in _list_items(body):
        kind = str(item.get("type", "message"))
        if kind == "message":
            turns.append(ConversationTurn(str(item.get("role", "user")), join_texts(item.get("content"))))
        elif kind.endswith("_output"):
            turns.append(ConversationTurn("tool"))
        elif kind.endswith("_call") or kind == "reasoning":  # every other item is information from the client itself
            turns.append(ConversationTurn("assistant"))
    return ParsedBody(
        turns=tuple(turns),
        tools=dict(named_tool for tool in _list_tools(body) for named_tool in _iter_named_tools(tool)),
        system=join_texts(body.get("instructions")),
        schema=find_nested(body, "text", "format", "schema"),
    )


def select_measured_parts(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a body whose size the log shows."""
    items = [item for item in _list_items(body) if item.get("type") != "additional_tools"]
    system = [item for item in items if item.get("role") in ("system", "developer")]
    return {
        "system": [part for part in (body.get("instructions"), *system) if part],
        "tools": _list_tools(body),
        "messages": [item for item in items if item.get("role") not in ("system", "developer")],
    }


def build_response(answer: ModelAnswer) -> dict[str, Any]:
    """Return the answer as one response."""
    return _build_finished_response(answer, new_id("resp_"), _build_output(answer))


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    response_id, items = new_id("resp_"), _build_output(answer)
    for number, (kind, fields) in enumerate(_iter_stream_steps(answer, response_id, items)):
        yield format_sse_event({"type": kind, "sequence_number": number, **fields}, kind)


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    response = {
        "id": new_id("resp_"), "object": "response", "status": "failed", "output": [],
        "error": {"code": kind, "message": message},
    }  # fmt: skip
    return format_sse_event({"type": "response.failed", "sequence_number": 99, "response": response}, "response.failed")


def _list_items(body: dict[str, Any]) -> list[dict[str, Any]]:
    conversation = body.get("input")
    return [{"role": "user", "content": conversation}] if isinstance(conversation, str) else list_objects(conversation)


def _list_tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the offered tools. Codex with its newest models sends them inside the input."""
    tools = list_objects(body.get("tools"))
    for item in _list_items(body):
        if item.get("type") == "additional_tools":
            for tool in list_objects(item.get("tools")):
                tools += list_objects(tool.get("tools")) if tool.get("name") == "functions" else [tool]
    return tools


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
    for name, arguments in answer.calls:
        call = {"call_id": new_id("call_"), "name": name, "status": "completed"}
        if isinstance(arguments, str):
            items.append({"type": "custom_tool_call", "id": new_id("ctc_"), "input": arguments, **call})
        else:
            items.append({"type": "function_call", "id": new_id("fc_"), "arguments": json.dumps(arguments), **call})
    return items


def _build_head(answer: ModelAnswer, response_id: str, status: str) -> dict[str, Any]:
    return {
        "id": response_id, "object": "response", "created_at": int(time.time()), "status": status, "model": answer.model,
        "output": [], "error": None, "incomplete_details": None, "parallel_tool_calls": True, "tools": [],
        "usage": None,
    }  # fmt: skip


def _build_finished_response(answer: ModelAnswer, response_id: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    usage, reason = answer.usage, _STOP_REASONS.get(answer.stop_reason or "")
    return {
        **_build_head(answer, response_id, "incomplete" if reason else "completed"),
        "output": items,
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": {
            "input_tokens": usage.prompt_tokens, "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.output,
        },
    }  # fmt: skip


def _iter_stream_steps(
    answer: ModelAnswer, response_id: str, items: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": _build_head(answer, response_id, "in_progress")}
    for index, item in enumerate(items):
        position = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            yield _build_added_event(index, item, content=[])
            yield from _iter_text_steps({**position, "content_index": 0}, item["content"][0])
        elif item["type"] == "reasoning":
            yield _build_added_event(index, item, summary=[])
            yield from _iter_thought_steps({**position, "summary_index": 0}, item["summary"][0])
        elif item["type"] == "function_call":
            yield _build_added_event(index, item, arguments="")
            yield "response.function_call_arguments.delta", {**position, "delta": item["arguments"]}
            yield "response.function_call_arguments.done", {**position, "arguments": item["arguments"]}
        else:
            yield _build_added_event(index, item, input="")
            yield "response.custom_tool_call_input.delta", {**position, "delta": item["input"]}
            yield "response.custom_tool_call_input.done", {**position, "input": item["input"]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    response = _build_finished_response(answer, response_id, items)
    yield f"response.{response['status']}", {"response": response}


def _build_added_event(index: int, item: dict[str, Any], **empty: Any) -> tuple[str, dict[str, Any]]:
    started_item = {**item, **empty, "status": "in_progress"}
    return "response.output_item.added", {"output_index": index, "item": started_item}


def _iter_text_steps(position: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**position, "part": {**part, "text": ""}}
    for piece in split_text(part["text"]):
        yield "response.output_text.delta", {**position, "delta": piece}
    yield "response.output_text.done", {**position, "text": part["text"]}
    yield "response.content_part.done", {**position, "part": part}


def _iter_thought_steps(position: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.reasoning_summary_part.added", {**position, "part": {**part, "text": ""}}
    for piece in split_text(part["text"]):
        yield "response.reasoning_summary_text.delta", {**position, "delta": piece}
    yield "response.reasoning_summary_text.done", {**position, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**position, "part": part}
