"""The lines of the list: headings, agents with their questions, and runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rich.text import Text

from mngr.base import time_format
from mngr.base.model import Struct
from mngr.overview.agent_cards import GROUPS, NEEDS_YOU, PARKED, WORKING, AgentCard
from mngr.overview.card_words import HEADINGS, describe_need_or_state
from mngr.overview.follow_runs import RunCard
from mngr.overview.run_facts import format_bar
from mngr.overview.untrusted_text import clean_line

_STATE_STYLES = {"RUNNING": "green", "STARTING": "cyan", "DONE": "blue", "FAILED": "bold red", "UNKNOWN": "red"}
_RUN_STYLES = {"running": "green", "settled": "blue", "parked": "magenta", "interrupted": "red"}


class ListLine(Struct):
    """A line of the list. `key` is the id of its agent, or `run:NAME`, or empty for a heading."""

    key: str
    text: Text


def build_lines(
    agents: Iterable[AgentCard], runs: Iterable[RunCard], marked: Collection[str], width: int, now: float
) -> list[ListLine]:
    """Return all lines of the list."""
    by_group: dict[str, list[AgentCard]] = {group: [] for group in GROUPS}
    for card in agents:
        by_group[card.group].append(card)
    run_cards = list(runs)
    names = [card.view.name for cards in by_group.values() for card in cards] + [run.name for run in run_cards]
    name_width = max(8, min(24, width // 3, max(map(len, names), default=0)))
    lines: list[ListLine] = []
    for group, cards in by_group.items():
        if cards:
            lines.append(_build_heading(HEADINGS[group], len(cards), is_urgent=group == NEEDS_YOU))
        for card in cards:
            lines += _build_agent_lines(card, card.id in marked, name_width, now)
    if run_cards:
        lines.append(_build_heading("runs", len(run_cards), is_urgent=False))
        lines += [_build_run_line(run, name_width) for run in run_cards]
    return lines


def _build_heading(title: str, count: int, *, is_urgent: bool) -> ListLine:
    return ListLine(key="", text=Text(f"{title} ({count})", style="bold yellow" if is_urgent else "bold"))


def _choose_style(card: AgentCard) -> str:
    """Return the style for the words about the agent's state or need."""
    if card.need:
        return "bold yellow"
    return "magenta" if card.group == PARKED else _STATE_STYLES.get(card.view.state, "dim")


def _build_agent_lines(card: AgentCard, is_marked: bool, name_width: int, now: float) -> list[ListLine]:
    view = card.view
    age = card.compute_age(now)
    line = Text(no_wrap=True)
    line.append("* " if is_marked else "  ", "bold")
    line.append(_fit(view.name, name_width), "bold" if card.group == NEEDS_YOU else "")
    line.append(f" {_format_age(age):>4} ", "dim")
    line.append(describe_need_or_state(card, now), _choose_style(card))
    details = _list_details(card)
    for text, detail_style in details:
        line.append("  ")
        line.append(text, detail_style)
    lines = [ListLine(key=view.id, text=line)]
    if card.facts.question and card.group == NEEDS_YOU:
        lines.append(ListLine(key=view.id, text=Text(f"    {clean_line(card.facts.question, 500)}", style="italic")))
    return lines


def _list_details(card: AgentCard) -> list[tuple[str, str]]:
    """Return changed lines, cost, host and branch, as far as they are known."""
    view, facts = card.view, card.facts
    details: list[tuple[str, str]] = []
    if facts.insertions or facts.deletions:
        details.append((f"+{facts.insertions} −{facts.deletions}", "cyan"))
    if facts.unpulled and card.group != WORKING:
        details.append((f"{facts.unpulled} to pull", "cyan"))
    if facts.cost_usd:
        details.append((f"${facts.cost_usd:.2f}", ""))
    details.append((clean_line(view.host, 40), "dim"))
    if view.branch:
        details.append((clean_line(view.branch, 60), "dim"))
    return details


def _build_run_line(run: RunCard, name_width: int) -> ListLine:
    facts = run.facts
    line = Text("  ", no_wrap=True)
    line.append(_fit(run.name, name_width), "bold")
    line.append(f" {run.state}", _RUN_STYLES.get(run.state, ""))
    if facts.preparation:
        line.append(f"  {clean_line(facts.preparation)}")
    else:
        line.append(f"  {format_bar(facts.settled, facts.total, 10)} {facts.settled} of {facts.total}")
    if facts.alarm is not None:
        line.append("  ALARM", "bold red")
    if facts.outcomes:
        line.append(f"  {clean_line(facts.outcomes)}", "dim")
    return ListLine(key=f"run:{run.name}", text=line)


def _format_age(age: float | None) -> str:
    return "-" if age is None else time_format.format_age(age)


def _fit(text: str, width: int) -> str:
    """Return the text in exactly this many columns. Names of agents and runs are plain ASCII."""
    clean = clean_line(text)
    return f"{clean[: width - 1]}…" if len(clean) > width else clean.ljust(width)
