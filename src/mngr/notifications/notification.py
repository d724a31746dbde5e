"""A notification: what happened to an agent or a run, as data and as one line of text for a person."""

from __future__ import annotations

from mngr.base import shell
from mngr.base.model import AgentView, Struct
from mngr.tmr.deliver.markdown import redact_line

# The values of the field `event`. Users write these words in the filter of notifications.
AGENT_EVENTS = ("permission", "question", "answer", "login", "parked", "failed", "done")
RUN_EVENTS = ("ended", "alarm")
TEST_EVENT = "test"
# A run answers its own agents, so the default filter leaves them out.
DEFAULT_FILTER = (
    'event == ended or event == alarm or (labels.run == "" and (event == permission or event == question or '
    "event == answer or event == login or event == failed))"
)
_MAX_QUESTION_LENGTH = 300  # characters of a question in the text
_MAX_REASON_LENGTH = 100
_AGENT_PHRASES = {
    "permission": "asks for permission",
    "question": "asks a question",
    "answer": "has ended its turn and waits for you",
    "login": "needs a login",
    "parked": "is parked",
    "failed": "has failed",
    "done": "is done",
}


class Notification(Struct):
    """One thing to tell a person. Its texts have no control codes and no secrets. A repeated notification has the same id."""

    v: int = 1
    id: str
    at: str  # when it happened
    event: str
    name: str  # of the agent or the run
    agent: str | None = None  # the agent's id
    run: str | None = None
    title: str
    text: str  # one line: the title, the question and the commands
    question: str = ""
    commands: tuple[str, ...] = ()  # complete commands that answer the agent or explain more
    kind: str | None = None
    state: str | None = None
    state_reason: str | None = None
    host: str | None = None
    provider: str | None = None
    project: str | None = None
    branch: str | None = None
    labels: dict[str, str] = {}


def classify_state(state: str, reason: str | None) -> str | None:
    """Return the event of an agent that enters a state, or None when there is nothing to tell."""
    if state == "WAITING":
        return str(reason) if reason in ("permission", "question") else "answer"
    if state == "PARKED":
        return "login" if reason == "login" else "parked"
    return {"FAILED": "failed", "DONE": "done"}.get(state)


def build_agent_notification(
    notification_id: str, at: str, view: AgentView, question: str, commands: tuple[str, ...]
) -> Notification:
    """Return the notification about an agent. `view` has the state of the time `at`; the question is untrusted."""
    reason = redact_line(view.state_reason, _MAX_REASON_LENGTH) or None
    event = classify_state(view.state, reason)
    assert event is not None
    title = f"{view.name} {_AGENT_PHRASES[event]}"
    if reason and event in ("failed", "parked"):
        title += f" ({reason})"
    question = redact_line(question, _MAX_QUESTION_LENGTH)
    return Notification(
        id=notification_id,
        at=at,
        event=event,
        name=view.name,
        agent=view.id,
        title=title,
        text=build_text(title, question, commands),
        question=question,
        commands=commands,
        kind=view.kind,
        state=view.state,
        state_reason=reason,
        host=view.host,
        provider=view.provider,
        project=view.project,
        branch=view.branch,
        labels=view.labels,
    )


def build_run_notification(
    notification_id: str, at: str, event: str, run: str, root: str, details: str
) -> Notification:
    """Return the notification about a run. `details` is untrusted text."""
    details = redact_line(details, _MAX_QUESTION_LENGTH)
    title = f"the run {run} has an alarm" if event == "alarm" else f"the run {run} has ended"
    commands = (f"cd {shell.quote(root)} && mngr tmr status {run}",)
    return Notification(
        id=notification_id,
        at=at,
        event=event,
        name=run,
        run=run,
        title=title,
        text=build_text(title, details, commands),
        question=details,
        commands=commands,
        project=root,
    )


def build_text(title: str, question: str, commands: tuple[str, ...]) -> str:
    """Return the line for a person. The quotation marks around the question show where the agent's words end."""
    text = title
    if question:
        text += ": “" + question.replace("“", '"').replace("”", '"') + "”"
    if commands:
        text += f" | {commands[0]}" + "".join(f" | or: {command}" for command in commands[1:])
    return text


def build_test_notification(notification_id: str, at: str) -> Notification:
    """Return the notification of `mngr notify --test`."""
    title = "mngr can reach you"
    return Notification(
        id=notification_id,
        at=at,
        event=TEST_EVENT,
        name="mngr",
        title=title,
        text=build_text(title, "", ("mngr notify --follow",)),
        commands=("mngr notify --follow",),
    )
