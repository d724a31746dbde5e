"""Reads conversations that the user began in their own opencode."""

from __future__ import annotations

import os

from mngr.base.errors import NotFound
from mngr.base.untrusted_json import as_object, find_number, find_text, get_int, get_object, get_objects, get_text
from mngr.kinds.coding_agent import format_milliseconds
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mngr.base.untrusted_json import JsonObject


def get_database(data_dir: str, name: str) -> str:
    """Return the database that has the conversation; raise NotFound, which names the latest ones."""
    import sqlite3
    from urllib.parse import quote

    path = os.path.join(data_dir, "opencode.db")
    hint = f"leave out --resume: there are no conversations in {data_dir}"
    try:
        database = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
        try:
            if database.execute("SELECT 1 FROM session WHERE id = ?", (name,)).fetchone():
                return path
            latest = database.execute(
                "SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_updated DESC LIMIT 3"
            )
            if names := ", ".join(str(row[0]) for row in latest):
                hint = f"use the id of a conversation, for example: {names}"
        finally:
            database.close()
    except sqlite3.Error:
        pass  # The file does not exist, or it has an unknown schema.
    raise NotFound(f"opencode has no conversation {name!r} on this machine", hint)


def parse_export(exported: object) -> Iterator[TranscriptEntry]:
    """Yield the entries of a conversation from the output of `opencode export`."""
    for message in get_objects(as_object(exported), "messages"):
        info = get_object(message, "info")
        parts = [_convert_part(info, part) for part in get_objects(message, "parts")]
        entries = [entry for entry in parts if entry is not None]
        if entries and info.get("role") == "assistant":
            entries[-1] = entries[-1].replace(usage=_find_usage(info))
        yield from entries


def _convert_part(info: JsonObject, part: JsonObject) -> TranscriptEntry | None:
    """Return the entry for a part of a message, or None when the part is internal."""
    time = get_object(info, "time")
    at = format_milliseconds(time.get("completed") or time.get("created"))
    is_answer = info.get("role") == "assistant"
    model = find_text(info, "modelID") if is_answer else None
    text = get_text(part, "text")
    if part.get("type") == "text" and text.strip() and not part.get("synthetic"):
        role = "user" if info.get("role") == "user" else "assistant"
        return TranscriptEntry(at=at, role=role, text=text, model=model)
    state = part.get("state")
    if part.get("type") != "tool" or not isinstance(state, dict):
        return None
    output = get_text(state, "output") or get_text(state, "error")
    tool = find_text(part, "tool")
    return TranscriptEntry(at=at, role="tool", tool=tool, input=state.get("input"), output=output, model=model)


def _find_usage(info: JsonObject) -> TokenUsage | None:
    """Return the token counts and the cost of an answer, or None when all counts are zero."""
    tokens = get_object(info, "tokens")
    cache = get_object(tokens, "cache")
    usage = TokenUsage(
        input_tokens=get_int(tokens, "input"),
        output_tokens=get_int(tokens, "output") + get_int(tokens, "reasoning"),
        cache_read_tokens=get_int(cache, "read"),
        cache_write_tokens=get_int(cache, "write"),
        cost_usd=find_number(info, "cost") or None,
    )
    return usage if usage.total_tokens else None
