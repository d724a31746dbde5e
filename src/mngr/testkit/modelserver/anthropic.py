"""The Messages API of Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mngr.base.json_structs import encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_objects, get_objects
from mngr.testkit.modelserver.answer import ModelAnswer, format_sse_event, new_id, split_text
from mngr.testkit.modelserver.request import (
    ConversationTurn,
    MeasuredParts,
    ParsedBody,
    find_nested,
    join_texts,
    parse_parameters,
)

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicUsage(Struct):
    """The token counts of a message, as the API names them."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    service_tier: str = "standard"


class ThinkingBlock(Struct):
    """A thought of the model."""

    type: str = "thinking"
    thinking: str
    signature: str


class TextBlock(Struct):
    """A text of the model."""

    type: str = "text"
    text: str


class ToolUseBlock(Struct):
    """A call of a client's tool."""

    type: str = "tool_use"
    id: str
    name: str
    input: object


ContentBlock = ThinkingBlock | TextBlock | ToolUseBlock


class AssistantMessage(Struct):
    """A response of the API."""

    id: str
    type: str = "message"
    role: str = "assistant"
    model: str
    content: tuple[ContentBlock, ...] = ()
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: AnthropicUsage


def parse_request(body: dict[str, object]) -> ParsedBody:
    """Return the conversation, tools and schema in a request body."""
    turns: list[ConversationTurn] = []
    for message in get_objects(body, "messages"):
        turns += _parse_message(message)
    return ParsedBody(
        turns=tuple(turns),
        tools={
            str(tool.get("name", tool.get("type"))): parse_parameters(tool.get("input_schema"))
            for tool in get_objects(body, "tools")
        },
        system=join_texts(body.get("system")),
        schema=find_nested(body, "output_config", "format", "schema"),
    )


def select_measured_parts(body: dict[str, object]) -> MeasuredParts:
    """Return the parts of a body whose size the log shows."""
    return MeasuredParts(system=body.get("system"), tools=body.get("tools"), messages=body.get("messages"))


def build_response(answer: ModelAnswer) -> object:
    """Return the answer as the JSON of one response."""
    blocks = tuple(_build_blocks(answer))
    return encode(_build_empty_message(answer).replace(content=blocks, stop_reason=_get_stop_reason(answer)))


def iter_events(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the events of a streamed answer."""
    message = _build_empty_message(answer)
    yield _format_event("message_start", message=message.replace(usage=message.usage.replace(output_tokens=1)))
    yield _format_event("ping")
    for index, block in enumerate(_build_blocks(answer)):
        yield from _iter_block_events(index, block)
    stop = {"stop_reason": _get_stop_reason(answer), "stop_sequence": None}
    yield _format_event("message_delta", delta=stop, usage=message.usage)
    yield _format_event("message_stop")


def build_error(status: int, kind: str | None, message: str) -> object:
    """Return the body of an error response."""
    kind = kind or _ERROR_TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": new_id("req_")}


def build_stream_error(kind: str, message: str) -> bytes:
    """Return an error event inside a stream."""
    return _format_event("error", error={"type": kind, "message": message})


def _parse_message(message: dict[str, object]) -> Iterator[ConversationTurn]:
    role, content = str(message.get("role", "user")), message.get("content")
    text = join_texts(content)
    if role == "assistant":
        yield ConversationTurn(role, text)
        return
    if any(part.get("type") == "tool_result" for part in as_objects(content)):
        yield ConversationTurn("tool")
    if text:
        yield ConversationTurn(role, text)


def _format_event(kind: str, **fields: object) -> bytes:
    return format_sse_event({"type": kind, **fields}, kind)


def _build_empty_message(answer: ModelAnswer) -> AssistantMessage:
    usage = AnthropicUsage(
        input_tokens=answer.usage.input,
        cache_creation_input_tokens=answer.usage.cache_write,
        cache_read_input_tokens=answer.usage.cache_read,
        output_tokens=answer.usage.output,
    )
    return AssistantMessage(id=new_id("msg_"), model=answer.model, usage=usage)


def _build_blocks(answer: ModelAnswer) -> Iterator[ContentBlock]:
    if answer.thinking is not None:
        yield ThinkingBlock(thinking=answer.thinking, signature=new_id("sig_"))
    if answer.text is not None:
        yield TextBlock(text=answer.text)
    for call in answer.calls:
        yield ToolUseBlock(id=new_id("toolu_"), name=call.name, input=call.input)


def _iter_block_events(index: int, block: ContentBlock) -> Iterator[bytes]:
    yield _format_event("content_block_start", index=index, content_block=_empty_block(block))
    for delta in _iter_deltas(block):
        yield _format_event("content_block_delta", index=index, delta=delta)
    yield _format_event("content_block_stop", index=index)


def _empty_block(block: ContentBlock) -> ContentBlock:
    """Return the block without its content, which the deltas bring."""
    if isinstance(block, ThinkingBlock):
        return ThinkingBlock(thinking="", signature="")
    if isinstance(block, TextBlock):
        return TextBlock(text="")
    return block.replace(input={})


def _iter_deltas(block: ContentBlock) -> Iterator[dict[str, str]]:
    """Yield the pieces of a block's content."""
    if isinstance(block, ThinkingBlock):
        for piece in split_text(block.thinking):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block.signature}
    elif isinstance(block, TextBlock):
        for piece in split_text(block.text):
            yield {"type": "text_delta", "text": piece}
    else:
        for piece in split_text(json.dumps(block.input), 48):
            yield {"type": "input_json_delta", "partial_json": piece}


def _get_stop_reason(answer: ModelAnswer) -> str:
    return answer.stop_reason or ("tool_use" if answer.calls else "end_turn")
