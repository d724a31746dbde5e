"""The Responses API of OpenAI."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import NamedTuple

from mngr.base.json_structs import encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import get_object, get_objects
from mngr.testkit.modelserver import chat_completions
from mngr.testkit.modelserver.answer import ModelAnswer, ToolCall, format_sse_event, new_id, split_text
from mngr.testkit.modelserver.request import (
    FREEFORM,
    ConversationTurn,
    MeasuredParts,
    ParsedBody,
    ToolParameters,
    find_nested,
    join_texts,
    parse_parameters,
)

build_error = chat_completions.build_error
_STOP_REASONS = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


class SummaryText(Struct):
    """The text of a thought."""

    type: str = "summary_text"
    text: str


class OutputText(Struct):
    """The text of a message."""

    type: str = "output_text"
    text: str
    annotations: tuple[object, ...] = ()


class ReasoningItem(Struct):
    """A thought of the model."""

    type: str = "reasoning"
    id: str
    summary: tuple[SummaryText, ...]


class MessageItem(Struct):
    """A text of the model."""

    type: str = "message"
    id: str
    role: str = "assistant"
    status: str = "completed"
    content: tuple[OutputText, ...]


class FunctionCallItem(Struct):
    """A call of a client's function, with its arguments as JSON text."""

    type: str = "function_call"
    id: str
    arguments: str
    call_id: str
    name: str
    status: str = "completed"


class CustomToolCallItem(Struct):
    """A call of a client's tool that takes plain text."""

    type: str = "custom_tool_call"
    id: str
    input: str
    call_id: str
    name: str
    status: str = "completed"


OutputItem = ReasoningItem | MessageItem | FunctionCallItem | CustomToolCallItem


class ResponseUsage(Struct):
    """The token counts of a response, as the API names them."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ModelResponse(Struct):
    """A response of the API, finished or in progress."""

    id: str
    object: str = "response"
    created_at: int
    status: str = "in_progress"
    model: str
    output: tuple[OutputItem, ...] = ()
    error: None = None
    incomplete_details: dict[str, str] | None = None
    parallel_tool_calls: bool = True
    tools: tuple[str, ...] = ()
    usage: ResponseUsage | None = None


class StreamStep(NamedTuple):
    """An event of a streamed answer, before it gets its number."""

    kind: str
    fields: dict[str, object]


def parse_request(body: dict[str, object]) -> ParsedBody:
    """Return the conversation, tools and schema in a request body."""
    turns = [_find_turn(item) for item in _list_items(body)]
    return ParsedBody(
        turns=tuple(turn for turn in turns if turn is not None),
        tools=dict(named_tool for tool in _list_tools(body) for named_tool in _iter_named_tools(tool)),
        system=join_texts(body.get("instructions")),
        schema=find_nested(body, "text", "format", "schema"),
    )


def select_measured_parts(body: dict[str, object]) -> MeasuredParts:
    """Return the parts of a body whose size the log shows."""
    items = [item for item in _list_items(body) if item.get("type") != "additional_tools"]
    system = [item for item in items if _is_system(item)]
    return MeasuredParts(
        system=[part for part in (body.get("instructions"), *system) if part],
        tools=_list_tools(body),
        messages=[item for item in items if not _is_system(item)],
    )


def build_response(answer: ModelAnswer) -> object:
    """Return the answer as the JSON of one response."""
    return encode(_finish_response(_start_response(answer), answer, _build_output(answer)))


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    for number, step in enumerate(_iter_stream_steps(answer)):
        yield format_sse_event({"type": step.kind, "sequence_number": number, **step.fields}, step.kind)


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    response = {
        "id": new_id("resp_"),
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": kind, "message": message},
    }
    return format_sse_event({"type": "response.failed", "sequence_number": 99, "response": response}, "response.failed")


def _find_turn(item: dict[str, object]) -> ConversationTurn | None:
    """Return the turn that an item stands for. Items of other types are information from the client itself."""
    kind = str(item.get("type", "message"))
    if kind == "message":
        return ConversationTurn(str(item.get("role", "user")), join_texts(item.get("content")))
    if kind.endswith("_output"):
        return ConversationTurn("tool")
    if kind.endswith("_call") or kind == "reasoning":
        return ConversationTurn("assistant")
    return None


def _is_system(item: dict[str, object]) -> bool:
    return item.get("role") in ("system", "developer")


def _list_items(body: dict[str, object]) -> list[dict[str, object]]:
    conversation = body.get("input")
    if isinstance(conversation, str):
        return [{"role": "user", "content": conversation}]
    return get_objects(body, "input")


def _list_tools(body: dict[str, object]) -> list[dict[str, object]]:
    """Return the offered tools. Codex with its newest models sends them inside the input."""
    tools = get_objects(body, "tools")
    for item in _list_items(body):
        if item.get("type") == "additional_tools":
            for tool in get_objects(item, "tools"):
                tools += get_objects(tool, "tools") if tool.get("name") == "functions" else [tool]
    return tools


def _iter_named_tools(tool: dict[str, object]) -> Iterator[tuple[str, ToolParameters]]:
    if tool.get("type") == "namespace":
        for inner in get_objects(tool, "tools"):
            yield f"{tool.get('name', '')}{inner.get('name', '')}", parse_parameters(inner.get("parameters"))
    else:
        schema = get_object(tool, "parameters")
        yield str(tool.get("name", tool.get("type"))), parse_parameters(schema) if schema else FREEFORM


def _build_output(answer: ModelAnswer) -> tuple[OutputItem, ...]:
    items: list[OutputItem] = []
    if answer.thinking is not None:
        items.append(ReasoningItem(id=new_id("rs_"), summary=(SummaryText(text=answer.thinking),)))
    if answer.text is not None:
        items.append(MessageItem(id=new_id("msg_"), content=(OutputText(text=answer.text),)))
    items += [_build_call(call) for call in answer.calls]
    return tuple(items)


def _build_call(call: ToolCall) -> OutputItem:
    call_id = new_id("call_")
    if isinstance(call.input, str):
        return CustomToolCallItem(id=new_id("ctc_"), input=call.input, call_id=call_id, name=call.name)
    return FunctionCallItem(id=new_id("fc_"), arguments=json.dumps(call.input), call_id=call_id, name=call.name)


def _start_response(answer: ModelAnswer) -> ModelResponse:
    return ModelResponse(id=new_id("resp_"), created_at=int(time.time()), model=answer.model)


def _finish_response(response: ModelResponse, answer: ModelAnswer, items: tuple[OutputItem, ...]) -> ModelResponse:
    usage = ResponseUsage(
        input_tokens=answer.usage.prompt_tokens,
        input_tokens_details={"cached_tokens": answer.usage.cache_read},
        output_tokens=answer.usage.output,
        output_tokens_details={"reasoning_tokens": 0},
        total_tokens=answer.usage.prompt_tokens + answer.usage.output,
    )
    finished = response.replace(status="completed", output=items, usage=usage)
    reason = _STOP_REASONS.get(answer.stop_reason or "")
    if reason:
        return finished.replace(status="incomplete", incomplete_details={"reason": reason})
    return finished


def _iter_stream_steps(answer: ModelAnswer) -> Iterator[StreamStep]:
    response, items = _start_response(answer), _build_output(answer)
    yield StreamStep("response.created", {"response": response})
    for index, item in enumerate(items):
        yield from _iter_item_steps(index, item)
        yield StreamStep("response.output_item.done", {"output_index": index, "item": item})
    finished = _finish_response(response, answer, items)
    yield StreamStep(f"response.{finished.status}", {"response": finished})


def _iter_item_steps(index: int, item: OutputItem) -> Iterator[StreamStep]:
    """Yield the start of an item without its content, then the content."""
    position: dict[str, object] = {"item_id": item.id, "output_index": index}
    if isinstance(item, MessageItem):
        yield _build_added_step(index, item.replace(content=()))
        yield from _iter_text_steps({**position, "content_index": 0}, item.content[0])
    elif isinstance(item, ReasoningItem):
        yield _build_added_step(index, item.replace(summary=()))
        yield from _iter_thought_steps({**position, "summary_index": 0}, item.summary[0])
    elif isinstance(item, FunctionCallItem):
        yield _build_added_step(index, item.replace(arguments=""))
        yield StreamStep("response.function_call_arguments.delta", {**position, "delta": item.arguments})
        yield StreamStep("response.function_call_arguments.done", {**position, "arguments": item.arguments})
    else:
        yield _build_added_step(index, item.replace(input=""))
        yield StreamStep("response.custom_tool_call_input.delta", {**position, "delta": item.input})
        yield StreamStep("response.custom_tool_call_input.done", {**position, "input": item.input})


def _build_added_step(index: int, empty_item: OutputItem) -> StreamStep:
    started_item = {**empty_item.to_dict(), "status": "in_progress"}
    return StreamStep("response.output_item.added", {"output_index": index, "item": started_item})


def _iter_text_steps(position: dict[str, object], part: OutputText) -> Iterator[StreamStep]:
    yield StreamStep("response.content_part.added", {**position, "part": part.replace(text="")})
    for piece in split_text(part.text):
        yield StreamStep("response.output_text.delta", {**position, "delta": piece})
    yield StreamStep("response.output_text.done", {**position, "text": part.text})
    yield StreamStep("response.content_part.done", {**position, "part": part})


def _iter_thought_steps(position: dict[str, object], part: SummaryText) -> Iterator[StreamStep]:
    yield StreamStep("response.reasoning_summary_part.added", {**position, "part": part.replace(text="")})
    for piece in split_text(part.text):
        yield StreamStep("response.reasoning_summary_text.delta", {**position, "delta": piece})
    yield StreamStep("response.reasoning_summary_text.done", {**position, "text": part.text})
    yield StreamStep("response.reasoning_summary_part.done", {**position, "part": part})
