"""The texts above and below the list: the numbers of agents, and what happened."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from mngr.base.model import AgentView, Outcome
from mngr.base.size_format import choose_noun, format_count
from mngr.board.list_lines import HEADINGS
from mngr.board.untrusted_text import clean_line
from mngr.overview.actions import ALLOW, DENY, DESTROY, LABEL, MESSAGE, PULL, START, STOP, UNDESTROY
from mngr.overview.agent_cards import GROUPS
from mngr.overview.subscription import CardChange, Overview

DONE_WORDS = {
    ALLOW: "allowed", DENY: "denied", MESSAGE: "sent a message to", PULL: "pulled", STOP: "stopped",
    START: "started", DESTROY: "moved to the trash:", UNDESTROY: "restored", LABEL: "labelled",
}  # fmt: skip


def format_summary(overview: Overview, shown: int, filter_text: str) -> Text:
    """Return how many agents each group has, the filter, and the hosts that do not answer."""
    if not overview.is_complete and not overview.agents:
        return Text("looking for agents", style="dim")
    if not overview.agents:
        return Text("there are no agents; create one: mngr create NAME claude")
    counts = [sum(card.group == group for card in overview.agents) for group in GROUPS]
    words = [HEADINGS[group] for group in GROUPS]
    words[0] = choose_noun(counts[0], "needs you", "need you")
    parts = [f"{count} {word}" for word, count in zip(words, counts, strict=True) if count]
    text = Text(" · ".join(parts), style="bold", no_wrap=True, overflow="ellipsis")
    if filter_text:
        text.append(f"  filter: {clean_line(filter_text)} ({shown} of {len(overview.agents)})", "not bold")
    for host, error in list(overview.errors.items())[:3]:
        text.append(f"  {clean_line(host, 40)}: {clean_line(error, 100)}", "bold red")
    return text


def describe_change(change: CardChange) -> str:
    """Return a change of an agent's state in words, or nothing for other changes."""
    before, after = change.before, change.after
    if after is None:
        return f"{before.view.name} was destroyed" if before is not None else ""
    view = after.view
    if before is None:
        return f"{view.name} was created"
    if (before.view.state, before.view.state_reason) == (view.state, view.state_reason):
        return ""
    reason = f" ({view.state_reason})" if view.state_reason else ""
    return f"{view.name} is {view.state}{reason}"


def format_failure(outcome: Outcome) -> str:
    """Return why an action failed for an agent, and the next step."""
    error = outcome.error or "failed"
    text = error if error.startswith(outcome.name) else f"{outcome.name}: {error}"
    return f"{text}; {outcome.hint}" if outcome.hint else text


def format_names(targets: Sequence[AgentView | Outcome]) -> str:
    """Return the names of a few agents, or the number of many."""
    if len(targets) > 5:
        return format_count(len(targets), "agent")
    return ", ".join(target.name for target in targets)
