"""What agents are told beside their task, and how their end is told."""

from __future__ import annotations

import time

from mngr.base import clock
from mngr.base.model import AgentView

MAX_REMINDERS = 2  # then the outcome is recorded as it is

ANSWERS = {
    "question": "Nobody is here to answer questions. Decide yourself, by what you were told, and go on to the end.",
    "permission": "Nobody is here to give permissions. Do it in a way that needs none, or say in your result that it cannot be done.",
}
CONTINUE_MESSAGE = "What stopped you is over. Go on where you were."
HOST_LOST_MESSAGE = (
    "The machine that you were on was lost, and you are on a new one. Of your work there is what you had committed; what "
    "came after the last commit is gone, whatever you remember of it. Look what is there (git log, git status), then go on."
)
STALLED_MESSAGE = "There was no sign of life from you. Finish, and write your result."


def is_stalled(view: AgentView, stall: float) -> bool:
    """Whether there was no sign of life for too long."""
    if view.activity_at is None or view.state_reason == "retrying":
        return False
    return time.time() - clock.parse_timestamp(view.activity_at) > stall


def describe_exit(view: AgentView) -> str:
    """The end of a program that should have waited."""
    return f"it ended: {view.state}" + (f" with exit code {view.exit_code}" if view.exit_code else "")


def next_action(view: AgentView, stall: float) -> tuple[str | None, tuple[str, str] | None]:
    """What is asked for by how an agent is: its work is to be brought home, closed as what (empty: as done), or a word why, and it."""
    if view.state == "WAITING" and view.state_reason in ANSWERS:
        return None, (view.state_reason, ANSWERS[view.state_reason])
    if view.state in ("WAITING", "DONE"):
        return "", None
    if view.state in ("FAILED", "STOPPED"):
        return describe_exit(view), None
    if view.state == "RUNNING" and is_stalled(view, stall):
        return None, ("no sign of life", STALLED_MESSAGE)
    return None, None
