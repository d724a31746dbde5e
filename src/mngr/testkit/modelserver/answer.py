"""An answer before it is put into the words of an API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Usage:
    """Tokens, as the model would count them."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    @property
    def prompt_tokens(self) -> int:
        """All that was sent, from a cache or not."""
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True)
class ModelAnswer:
    """What the model says: thoughts, text, then calls of the client's own tools (name, input)."""

    model: str
    usage: Usage
    text: str | None = None
    thinking: str | None = None
    calls: tuple[tuple[str, Any], ...] = ()
    stop_reason: str | None = None
    is_usage_requested: bool = False  # the client asks for usage in the stream


def split_text(text: str, size: int = 24) -> Iterator[str]:
    """A text as it is streamed."""
    for at in range(0, len(text) or 1, size):
        yield text[at : at + size]


def new_id(prefix: str) -> str:
    """An id as the real services make them."""
    return prefix + uuid.uuid4().hex[:24]


def format_sse_event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()
