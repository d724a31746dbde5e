"""Claude Code's own record of a conversation, in our schema."""

from __future__ import annotations

from mngr.base import clock
from mngr.kinds.coding_agent import parse_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_MAX_ROW_DELAY = 5.0  # seconds: what is missing for longer will not come


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Rows as they are complete: a tool's call and its result are one. What is not for people is left out.

    Of sub-agents, which have files of their own, there is what they used, in its place in time.
    """
    calls: dict[str, dict[str, Any]] = {}
    counted: set[str] = set()
    aside: list[dict[str, Any]] = []
    for row in _order_rows(parse_rows(lines)):
        message = row.get("message")
        if row.get("isSidechain"):
            aside += _parse_subagent_usage(message, row.get("timestamp"), counted)
            continue
        ready = [one for one in aside if str(one["at"]) <= str(row.get("timestamp") or "")]
        aside = [one for one in aside if one not in ready]
        yield from ready
        taken = row.get("attachment")
        if isinstance(taken, dict) and taken.get("type") == "queued_command":
            yield from _parse_user(
                {"content": taken.get("prompt")}, row.get("timestamp"), calls
            )  # in the middle of a turn
            continue
        if row.get("isMeta") or not isinstance(message, dict):
            continue
        if message.get("model") == "<synthetic>" and not row.get("isApiErrorMessage"):
            continue  # a filler of its own
        at = row.get("timestamp")
        if row.get("type") == "assistant":
            yield from _parse_assistant(message, at, calls, counted)
        elif row.get("type") == "user":
            yield from _parse_user(message, at, calls)
    yield from aside
    yield from calls.values()


def _order_rows(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each row after the one that it follows: on a busy machine an answer can be written down before its question."""
    known = {"None"}
    held: list[dict[str, Any]] = []
    for row in rows:
        if row.get("isSidechain"):
            yield row
            continue
        if held and _parse_time(row) - _parse_time(held[0]) > _MAX_ROW_DELAY:
            known.update(str(one.get("uuid")) for one in held)
            yield from held
            held.clear()
        held.append(row)
        while ready := [one for one in held if str(one.get("parentUuid")) in known][:1]:
            known.add(str(ready[0].get("uuid")))
            held.remove(ready[0])
            yield ready[0]
    yield from held


def _parse_time(row: dict[str, Any]) -> float:
    try:
        return clock.parse_timestamp(str(row.get("timestamp")))
    except ValueError:
        return 0.0


def _parse_subagent_usage(message: object, at: object, counted: set[str]) -> list[dict[str, Any]]:
    """An answer to a sub-agent, of which only the cost is told."""
    usage = _parse_usage(message.get("usage")) if isinstance(message, dict) else None
    if not isinstance(message, dict) or usage is None or str(message.get("id")) in counted:
        return []
    counted.add(str(message.get("id")))
    return [
        {
            "at": at,
            "role": "tool",
            "text": "",
            "tool": "sub-agent",
            "model": message.get("model"),
            "usage": usage,
        }
    ]


def _parse_assistant(
    message: dict[str, Any], at: object, calls: dict[str, dict[str, Any]], counted: set[str]
) -> Iterator[dict[str, Any]]:
    name = str(message.get("id"))
    usage = None if name in counted else _parse_usage(message.get("usage"))  # every part of an answer repeats it
    counted.add(name)
    model = message.get("model")
    for part in _list_parts(message.get("content")):
        base = {"at": at, "model": model, "usage": usage}
        if part.get("type") == "text" and str(part.get("text", "")).strip():
            yield {**base, "role": "assistant", "text": str(part["text"])}
            usage = None
        elif part.get("type") == "tool_use":
            call = {**base, "role": "tool", "text": "", "tool": part.get("name"), "input": part.get("input")}
            calls[str(part.get("id"))] = call
            usage = None
    if usage:  # only thoughts
        yield {"at": at, "model": model, "usage": usage, "role": "assistant", "text": ""}


def _parse_user(message: dict[str, Any], at: object, calls: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    said: list[str] = []
    for part in _list_parts(message.get("content")):
        if part.get("type") == "tool_result":
            call = calls.pop(str(part.get("tool_use_id")), None)
            if call is not None:
                yield {**call, "output": _join_text(part.get("content"))}
        elif part.get("type") == "text":
            said.append(str(part.get("text", "")))
    if said:
        yield {"at": at, "role": "user", "text": "\n".join(said)}


def _list_parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _join_text(content: object) -> str:
    return "\n".join(str(part.get("text", "")) for part in _list_parts(content))


def _parse_usage(found: object) -> dict[str, Any] | None:
    if not isinstance(found, dict):
        return None
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cache_read_input_tokens": "cache_read_tokens",
        "cache_creation_input_tokens": "cache_write_tokens",
    }
    counts = {ours: found[theirs] for theirs, ours in names.items() if isinstance(found.get(theirs), int)}
    if not any(counts.values()):
        return None
    kept = found.get("cache_creation")
    hour = kept.get("ephemeral_1h_input_tokens") if isinstance(kept, dict) else None
    more: dict[str, Any] = {"cache_write_1h_tokens": hour} if isinstance(hour, int) and hour else {}
    if found.get("speed") == "fast" or found.get("inference_geo") == "us":
        more["other_price"] = True
    return {**counts, **more}
