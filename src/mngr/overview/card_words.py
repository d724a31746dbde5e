"""The words for groups, states, changes and outcomes that the board and the web page show."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from mngr.base import time_format
from mngr.base.model import AgentView, Outcome
from mngr.base.size_format import choose_noun, format_count
from mngr.overview.actions import ALLOW, DENY, DESTROY, LABEL, MESSAGE, PULL, START, STOP, UNDESTROY
from mngr.overview.agent_cards import ENDED, GROUPS, NEEDS_YOU, PARKED, WORKING, AgentCard
from mngr.overview.subscription import CardChange
from mngr.overview.untrusted_text import clean_line

HEADINGS = {NEEDS_YOU: "needs you", WORKING: "working", PARKED: "parked", ENDED: "done, failed, stopped"}
NEED_WORDS = {
    "permission": "permission",
    "question": "question",
    "login": "log in",
    "answer": "turn ended",
    "review": "finished",
}
DONE_WORDS = {
    ALLOW: "allowed",
    DENY: "denied",
    MESSAGE: "sent a message to",
    PULL: "pulled",
    STOP: "stopped",
    START: "started",
    DESTROY: "moved to the trash:",
    UNDESTROY: "restored",
    LABEL: "labelled",
}


def list_counts(agents: Iterable[AgentCard]) -> list[str]:
    """Return how many agents each group has, without empty groups: `2 need you`."""
    groups = [card.group for card in agents]
    words = [HEADINGS[group] for group in GROUPS]
    words[0] = choose_noun(groups.count(NEEDS_YOU), "needs you", "need you")
    return [f"{count} {word}" for group, word in zip(GROUPS, words, strict=True) if (count := groups.count(group))]


def describe_need_or_state(card: AgentCard, now: float) -> str:
    """Return the words for what the agent needs or, if it needs nothing, for its state."""
    view = card.view
    if card.need:
        return NEED_WORDS[card.need]
    if card.group == PARKED:
        return f"parked until {format_end_time(view.parked_until, now)}"
    reason = f" ({clean_line(view.state_reason, 60)})" if view.state_reason else ""
    return view.state.lower() + reason


def format_end_time(parked_until: str | None, now: float) -> str:
    """Return the hour and minute at which a limit ends, in local time, and how long that still takes."""
    try:
        end = time_format.parse_timestamp(parked_until or "")
        clock = time.strftime("%H:%M", time.localtime(end))
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
    return f"{clock} (in {time_format.format_age(end - now)})" if end > now else clock


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
