"""Decides what a task's agent needs next: to be left alone, reminded, or collected."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mngr.base import time_format
from mngr.base.model import AgentView

MAX_REMINDERS = 2  # then the outcome is recorded as it is

ANSWERS = {
    "question": "No person is here to answer questions. Decide yourself, based on your instructions, and finish the task.",
    "permission": "No person is here to give permission. Find a way that needs no permission, or state in your result that the task cannot be done.",
}
CONTINUE_MESSAGE = "The interruption is over. Continue where you stopped."
HOST_LOST_MESSAGE = (
    "Your host was lost, and you run on a new host now. Only your committed work was saved. Everything after the last commit "
    "is gone, even if you remember it. Look at the present state with git log and git status, then continue."
)
STALLED_MESSAGE = "You showed no activity for a long time. Finish the task, and write your result."


@dataclass(frozen=True)
class Remind:
    """The agent needs a message before it can continue."""

    reason: str
    text: str


@dataclass(frozen=True)
class Collect:
    """The agent has ended: pull its work. `failure` explains an unsuccessful end."""

    failure: str | None = None


def is_stalled(agent: AgentView, stall_timeout: float) -> bool:
    """True when the agent showed no activity for longer than the timeout."""
    if agent.activity_at is None or agent.state_reason == "retrying":
        return False
    return time.time() - time_format.parse_timestamp(agent.activity_at) > stall_timeout


def describe_exit(agent: AgentView) -> str:
    """Return how a program ended that should have waited."""
    return f"the agent ended: {agent.state}" + (f" with exit code {agent.exit_code}" if agent.exit_code else "")


def next_action(agent: AgentView, stall_timeout: float) -> Remind | Collect | None:
    """Return what the agent needs now, or None while it is working."""
    if agent.state == "WAITING" and agent.state_reason in ANSWERS:
        return Remind(agent.state_reason, ANSWERS[agent.state_reason])
    if agent.state in ("WAITING", "DONE"):
        return Collect()
    if agent.state in ("FAILED", "STOPPED"):
        return Collect(failure=describe_exit(agent))
    if agent.state == "RUNNING" and is_stalled(agent, stall_timeout):
        return Remind("no activity", STALLED_MESSAGE)
    return None
