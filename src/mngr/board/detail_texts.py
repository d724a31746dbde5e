"""Loads what the tabs show of an agent: its screen, conversation, changes, events and explanation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from rich.text import Text

from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.board.untrusted_text import clean_line, parse_screen, split_lines
from mngr.kinds.transcript_entry import TranscriptEntry

TABS = {
    "screen": "Screen",
    "conversation": "Conversation",
    "diff": "Diff",
    "events": "Events",
    "explanation": "Explanation",
}
_MAX_ENTRIES = 500  # of a conversation
_MAX_OUTPUT_LINES = 5  # of a tool
_MAX_EVENTS = 500
_MAX_DIFF_BYTES = 4 << 20
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class DetailText:
    """The lines of a tab. `is_log` says that the newest lines are at the end, `is_prose` that lines are wrapped."""

    def __init__(self, lines: Sequence[Text], *, is_log: bool = False, is_prose: bool = False) -> None:
        self.lines = lines
        self.is_log = is_log
        self.is_prose = is_prose


def load_detail(fleet: Fleet, agent_id: str, tab: str) -> DetailText:
    """Return what a tab shows of an agent. An expected failure becomes its text."""
    try:
        return _LOADERS[tab](fleet, agent_id)
    except MngrError as error:
        lines = [Text(clean_line(error.message), style="yellow", no_wrap=True)]
        if error.hint:
            lines.append(Text(clean_line(error.hint), style="dim", no_wrap=True))
        return DetailText(lines, is_prose=True)


def _load_screen(fleet: Fleet, agent_id: str) -> DetailText:
    capture = fleet.capture(agent_id)
    lines = parse_screen(capture.text.rstrip("\n"))
    if not capture.is_live:
        lines.insert(0, Text("[the last screen before the agent was stopped]", style="dim"))
    return DetailText(lines, is_log=True)


def _load_conversation(fleet: Fleet, agent_id: str) -> DetailText:
    entries = list(fleet.transcript(agent_id))
    lines: list[Text] = []
    if len(entries) > _MAX_ENTRIES:
        lines.append(Text(f"[{len(entries) - _MAX_ENTRIES} earlier entries are not shown]", style="dim"))
    for entry in entries[-_MAX_ENTRIES:]:
        lines += _format_entry(entry)
    return DetailText(lines, is_log=True, is_prose=True)


def _format_entry(entry: TranscriptEntry) -> list[Text]:
    """Return an entry of a conversation: a heading and indented lines."""
    heading = Text(f"{clean_line(entry.role, 20)}  {format_clock_time(entry.at)}", style="bold cyan")
    if entry.role != "tool":
        return [heading, *_indent(entry.text)]
    details = entry.input if isinstance(entry.input, str) else json.dumps(entry.input, ensure_ascii=False)
    output = split_lines(entry.output or "")
    lines = [Text(f"  {clean_line(f'{entry.tool} {details}', 300)}", style="magenta")]
    lines += [Text(f"    {line}", style="dim") for line in output[:_MAX_OUTPUT_LINES]]
    if len(output) > _MAX_OUTPUT_LINES:
        lines.append(Text(f"    [{len(output) - _MAX_OUTPUT_LINES} more lines]", style="dim"))
    return lines


def _indent(text: str) -> list[Text]:
    return [Text(f"  {line}") for line in split_lines(text)]


def _load_diff(fleet: Fleet, agent_id: str) -> DetailText:
    out = fleet.diff(agent_id, options=("--no-color", "--stat", "--patch"))
    texts = split_lines(out[:_MAX_DIFF_BYTES].decode("utf-8", "replace"))
    if len(out) > _MAX_DIFF_BYTES:
        texts.append(f"[the diff has {len(out) >> 20} MB; only the beginning is shown]")
    if not texts:
        return DetailText([Text("the agent has changed nothing", style="dim")])
    return DetailText([Text(line, style=_choose_diff_style(line)) for line in texts])


def _choose_diff_style(line: str) -> str:
    if line.startswith(("diff --git", "+++", "---")):
        return "bold"
    return _DIFF_STYLES.get(line[:1], "")


def _load_events(fleet: Fleet, agent_id: str) -> DetailText:
    events = list(fleet.events([agent_id]))
    lines = []
    if len(events) > _MAX_EVENTS:
        lines.append(Text(f"[{len(events) - _MAX_EVENTS} earlier events are not shown]", style="dim"))
    for event in events[-_MAX_EVENTS:]:
        line = Text(f"{format_clock_time(event.at)}  ", style="dim")
        line.append(clean_line(event.type, 40), "bold")
        if event.data:
            line.append(f"  {clean_line(json.dumps(event.data, ensure_ascii=False), 300)}")
        lines.append(line)
    return DetailText(lines, is_log=True)


def _load_explanation(fleet: Fleet, agent_id: str) -> DetailText:
    explanation = fleet.explain(agent_id)
    state = explanation.state + (f" ({explanation.state_reason})" if explanation.state_reason else "")
    lines = [
        Text(clean_line(f"{explanation.name} is {state}, by its {explanation.state_source}"), style="bold"),
        Text(),
    ]
    for row in explanation.evidence:
        line = Text("→ " if row.is_decisive else "  ")
        line.append(f"{clean_line(row.source, 30)}: ", "bold" if row.is_decisive else "dim")
        line.append(clean_line(row.text, 500))
        if row.age is not None:
            line.append(f"  {time_format.format_age(row.age)} ago", "dim")
        lines.append(line)
    return DetailText([*lines, Text(), Text(f"next: {clean_line(explanation.next_step, 500)}")], is_prose=True)


def format_clock_time(timestamp: str | None) -> str:
    """Return the hour, minute and second of an untrusted timestamp."""
    return clean_line((timestamp or "")[11:19])


_LOADERS: dict[str, Callable[[Fleet, str], DetailText]] = {
    "screen": _load_screen,
    "conversation": _load_conversation,
    "diff": _load_diff,
    "events": _load_events,
    "explanation": _load_explanation,
}
