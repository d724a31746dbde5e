"""Loads the details of an agent as clean lines: its screen, conversation, changes, events and explanation."""

from __future__ import annotations

import json
from collections.abc import Callable

from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.kinds.transcript_entry import TranscriptEntry
from mngr.overview.untrusted_text import clean_line, split_lines, split_screen

TABS = {
    "screen": "Screen",
    "conversation": "Conversation",
    "diff": "Diff",
    "events": "Events",
    "explanation": "Explanation",
}
LIVE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds between two looks at a screen; they grow while it does not change
_MAX_ENTRIES = 500  # of a conversation
_MAX_OUTPUT_LINES = 5  # of a tool
_MAX_EVENTS = 500
_MAX_DIFF_BYTES = 4 << 20
_DIFF_STYLES = {"+": "added", "-": "removed", "@": "hunk"}


class Span(Struct):
    """A part of a line in one style: "", bold, dim, warning, heading, tool, added, removed, hunk or screen.

    The text of the style "screen" contains escape sequences for colours. All other text is free of control characters.
    """

    text: str
    style: str = ""


class AgentDetail(Struct):
    """The lines of a tab. `is_log` says that the newest lines are at the end, `is_prose` that lines are wrapped."""

    lines: tuple[tuple[Span, ...], ...]
    is_log: bool = False
    is_prose: bool = False


def load_detail(fleet: Fleet, agent_id: str, tab: str) -> AgentDetail:
    """Return what a tab shows of an agent. An expected failure becomes its text."""
    try:
        return _LOADERS[tab](fleet, agent_id)
    except MngrError as error:
        lines = [_line(clean_line(error.message), "warning")]
        if error.hint:
            lines.append(_line(clean_line(error.hint), "dim"))
        return AgentDetail(lines=tuple(lines), is_prose=True)


def _line(text: str, style: str = "") -> tuple[Span, ...]:
    return (Span(text=text, style=style),)


def _load_screen(fleet: Fleet, agent_id: str) -> AgentDetail:
    capture = fleet.capture(agent_id)
    lines = [_line(line, "screen") for line in split_screen(capture.text.rstrip("\n"))]
    if not capture.is_live:
        lines.insert(0, _line("[the last screen before the agent was stopped]", "dim"))
    return AgentDetail(lines=tuple(lines), is_log=True)


def _load_conversation(fleet: Fleet, agent_id: str) -> AgentDetail:
    entries = list(fleet.transcript(agent_id))
    lines: list[tuple[Span, ...]] = []
    if len(entries) > _MAX_ENTRIES:
        lines.append(_line(f"[{len(entries) - _MAX_ENTRIES} earlier entries are not shown]", "dim"))
    for entry in entries[-_MAX_ENTRIES:]:
        lines += _format_entry(entry)
    return AgentDetail(lines=tuple(lines), is_log=True, is_prose=True)


def _format_entry(entry: TranscriptEntry) -> list[tuple[Span, ...]]:
    """Return an entry of a conversation: a heading and indented lines."""
    if entry.role != "tool":
        heading = _line(f"{clean_line(entry.role, 20)}  {format_clock_time(entry.at)}", "heading")
        return [heading, *(_line(f"  {line}") for line in split_lines(entry.text))]
    details = entry.input if isinstance(entry.input, str) else json.dumps(entry.input, ensure_ascii=False)
    output = split_lines(entry.output or "")
    lines = [_line(f"  {clean_line(f'{entry.tool} {details}', 300)}", "tool")]
    lines += [_line(f"    {line}", "dim") for line in output[:_MAX_OUTPUT_LINES]]
    if len(output) > _MAX_OUTPUT_LINES:
        lines.append(_line(f"    [{len(output) - _MAX_OUTPUT_LINES} more lines]", "dim"))
    return lines


def _load_diff(fleet: Fleet, agent_id: str) -> AgentDetail:
    out = fleet.diff(agent_id, options=("--no-color", "--stat", "--patch"))
    texts = split_lines(out[:_MAX_DIFF_BYTES].decode("utf-8", "replace"))
    if len(out) > _MAX_DIFF_BYTES:
        texts.append(f"[the diff has {len(out) >> 20} MB; only the beginning is shown]")
    if not texts:
        return AgentDetail(lines=(_line("the agent has changed nothing", "dim"),))
    return AgentDetail(lines=tuple(_line(text, _choose_diff_style(text)) for text in texts))


def _choose_diff_style(line: str) -> str:
    if line.startswith(("diff --git", "+++", "---")):
        return "bold"
    return _DIFF_STYLES.get(line[:1], "")


def _load_events(fleet: Fleet, agent_id: str) -> AgentDetail:
    events = list(fleet.events([agent_id]))
    lines = []
    if len(events) > _MAX_EVENTS:
        lines.append(_line(f"[{len(events) - _MAX_EVENTS} earlier events are not shown]", "dim"))
    for event in events[-_MAX_EVENTS:]:
        line = [
            Span(text=f"{format_clock_time(event.at)}  ", style="dim"),
            Span(text=clean_line(event.type, 40), style="bold"),
        ]
        if event.data:
            line.append(Span(text=f"  {clean_line(json.dumps(event.data, ensure_ascii=False), 300)}"))
        lines.append(tuple(line))
    return AgentDetail(lines=tuple(lines), is_log=True)


def _load_explanation(fleet: Fleet, agent_id: str) -> AgentDetail:
    explanation = fleet.explain(agent_id)
    state = explanation.state + (f" ({explanation.state_reason})" if explanation.state_reason else "")
    lines = [
        _line(clean_line(f"{explanation.name} is {state}, by its {explanation.state_source}"), "bold"),
        _line(""),
    ]
    for row in explanation.evidence:
        style = "bold" if row.is_decisive else "dim"
        line = [
            Span(text="→ " if row.is_decisive else "  "),
            Span(text=f"{clean_line(row.source, 30)}: ", style=style),
            Span(text=clean_line(row.text, 500)),
        ]
        if row.age is not None:
            line.append(Span(text=f"  {time_format.format_age(row.age)} ago", style="dim"))
        lines.append(tuple(line))
    lines += [_line(""), _line(f"next: {clean_line(explanation.next_step, 500)}")]
    return AgentDetail(lines=tuple(lines), is_prose=True)


def format_clock_time(timestamp: str | None) -> str:
    """Return the hour, minute and second of an untrusted timestamp."""
    return clean_line((timestamp or "")[11:19])


_LOADERS: dict[str, Callable[[Fleet, str], AgentDetail]] = {
    "screen": _load_screen,
    "conversation": _load_conversation,
    "diff": _load_diff,
    "events": _load_events,
    "explanation": _load_explanation,
}
