"""Reads conversations that the user began in their own opencode."""

from __future__ import annotations

import os

from mngr.base.errors import NotFound
from mngr.kinds.coding_agent import format_milliseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def get_database(data_dir: str, name: str) -> str:
    """Return the database that has the conversation; raise NotFound, which names the latest ones."""
    import sqlite3
    from urllib.parse import quote

    path = os.path.join(data_dir, "opencode.db")
    hint = f"there is none in {data_dir}"
    try:
        database = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
        try:
            if database.execute("SELECT 1 FROM session WHERE id = ?", (name,)).fetchone():
                return path
            latest = database.execute(
                "SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_updated DESC LIMIT 3"
            )
            hint = "the latest there: " + (", ".join(str(row[0]) for row in latest) or "none")
        finally:
            database.close()
    except sqlite3.Error:
        pass  # The file does not exist, or it has an unknown schema.
    raise NotFound(f"opencode has no conversation {name!r} here", hint)


def iter_rows(exported: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the output of `opencode export` as rows in mngr's schema."""
    for message in _list_dicts(exported.get("messages")):
        info = message.get("info") or {}
        time = info.get("time") or {}
        base = {"v": 1, "at": format_milliseconds(time.get("completed") or time.get("created"))}
        rows = [row for part in _list_dicts(message.get("parts")) if (row := _convert_part(info, part))]
        if info.get("role") == "assistant":
            base["model"] = info.get("modelID")
            if rows:
                rows[-1]["usage"] = _parse_usage(info)
        yield from ({**base, **row} for row in rows)


def _convert_part(info: dict[str, Any], part: dict[str, Any]) -> dict[str, Any] | None:
    text = part.get("text")
    if part.get("type") == "text" and isinstance(text, str) and text.strip() and not part.get("synthetic"):
        return {"role": "user" if info.get("role") == "user" else "assistant", "text": text}
    state = part.get("state")
    if part.get("type") != "tool" or not isinstance(state, dict):
        return None
    output = state.get("output") or state.get("error") or ""
    return {
        "role": "tool", "text": "", "tool": part.get("tool"), "input": state.get("input"), "output": output,
    }  # fmt: skip


def _parse_usage(info: dict[str, Any]) -> dict[str, Any] | None:
    tokens = info.get("tokens") or {}
    cache = tokens.get("cache") or {}
    counts = {
        "input_tokens": tokens.get("input", 0),
        "output_tokens": tokens.get("output", 0) + tokens.get("reasoning", 0),
        "cache_read_tokens": cache.get("read", 0),
        "cache_write_tokens": cache.get("write", 0),
    }
    if not any(counts.values()):
        return None
    return {**counts, "cost_usd": info["cost"]} if info.get("cost") else counts


def _list_dicts(values: object) -> list[dict[str, Any]]:
    return [row for row in values if isinstance(row, dict)] if isinstance(values, list) else []
