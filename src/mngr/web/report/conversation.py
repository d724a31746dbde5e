"""The conversation of a task's agent. The agent wrote it, so it may have any fields."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from mngr.base.model import Struct
from mngr.base.untrusted_json import get_text, parse_json
from mngr.web.report.limited_reading import read_limited

MAX_CONVERSATION_BYTES = 600_000  # Counted from the end.
_ROLES = ("user", "assistant", "tool")


class Message(Struct):
    """One message, or one call of a tool."""

    role: str  # user | assistant | tool | other
    author: str  # The tool, the model or the role.
    at: str
    text: str
    input: str
    output: str


class Conversation(Struct):
    """The messages of a task, or the last ones."""

    messages: list[Message]
    message_count: int  # Also those without text.
    size: int  # Bytes of all messages.

    @property
    def is_cut(self) -> bool:
        """True when the first messages are left out."""
        return self.size > MAX_CONVERSATION_BYTES


def read_conversation(path: str) -> Conversation:
    """Return the conversation in a file, or its end if it is long."""
    rows = []
    for line in read_limited(path, MAX_CONVERSATION_BYTES, from_end=True).splitlines():
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    messages = [message for row in rows if (message := _build_message(row)) is not None]
    return Conversation(messages=messages, message_count=len(rows), size=os.path.getsize(path) if rows else 0)


def _build_message(row: Mapping[str, object]) -> Message | None:
    role = get_text(row, "role")
    message = Message(
        role=role if role in _ROLES else "other",
        author=get_text(row, "tool") or get_text(row, "model") or (role if role in _ROLES else "other"),
        at=get_text(row, "at"),
        text=get_text(row, "text"),
        input=_format_tool_data(row.get("input")),
        output=_format_tool_data(row.get("output")),
    )
    return message if message.text or message.input or message.output else None


def _format_tool_data(value: object) -> str:
    if not value:
        return ""
    return value if isinstance(value, str) else json.dumps(value, indent=1)
