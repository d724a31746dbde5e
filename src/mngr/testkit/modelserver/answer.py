"""The answer of the model, before an API module formats it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from mngr.base.json_structs import encode


@dataclass(frozen=True)
class Usage:
    """Token counts, as the model would report them."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    @property
    def prompt_tokens(self) -> int:
        """All input tokens, cached or not."""
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True)
class ToolCall:
    """A call of one of the client's own tools."""

    name: str
    input: object  # JSON, or a text for a tool that takes plain text


@dataclass(frozen=True)
class ModelAnswer:
    """The model's answer: thinking, text, then tool calls."""

    model: str
    usage: Usage
    text: str | None = None
    thinking: str | None = None
    calls: tuple[ToolCall, ...] = ()
    stop_reason: str | None = None
    is_usage_requested: bool = False  # the client wants the usage in the stream


def split_text(text: str, size: int = 24) -> Iterator[str]:
    """Yield the pieces in which a text is streamed."""
    for start in range(0, len(text) or 1, size):
        yield text[start : start + size]


def new_id(prefix: str) -> str:
    """Return a new id like those of the real services."""
    return prefix + uuid.uuid4().hex[:24]


def format_sse_event(data: object, name: str | None = None) -> bytes:
    """Return one server-sent event. The data may hold Structs."""
    event_line = f"event: {name}\n" if name else ""
    return f"{event_line}data: {json.dumps(encode(data))}\n\n".encode()
