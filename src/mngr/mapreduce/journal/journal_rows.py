"""The rows of a journal about tasks, with their effect on a task, and the table of all types of rows."""

from __future__ import annotations

from collections.abc import Mapping

from mngr.mapreduce.journal.agent_usage import NO_USAGE, AgentUsage, add_usage
from mngr.mapreduce.journal.host_rows import (
    HostStartedRow,
    HostStoppedRow,
    NewHostRow,
    ReleasedRow,
    ReleaseFailedRow,
    ReleaseRow,
)
from mngr.mapreduce.journal.run_rows import (
    AlarmOverRow,
    AlarmRow,
    AlertRow,
    EndedRow,
    PreparedRow,
    PrepareRow,
    ResumedRow,
    UnpreparedRow,
    WindowRow,
)
from mngr.mapreduce.journal.run_state import JournalRow, Task, TaskState


class TaskRow(JournalRow):
    """A row about one task."""

    slug: str

    def apply(self, task: TaskState) -> TaskState:
        """Return the task after this row."""
        return task


class NewTaskRow(JournalRow):
    """The recipe planned a task."""

    type_name = "task"
    task: Task
    agent_usage: AgentUsage = NO_USAGE  # what an existing agent has used before


class LaunchRow(TaskRow):
    """The task's agent is about to be created."""

    type_name = "launch"
    agent: str
    attempt: int
    base: str | None = None
    host: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as a new attempt."""
        is_same_agent = task.agent == self.agent == task.task.existing_agent
        return task.replace(
            state="launching",
            agent=self.agent,
            attempt=self.attempt,
            base=self.base,
            agent_id=None,
            is_prompted=False,
            agent_kind=task.agent_kind if is_same_agent else None,
            reminders=0,
            is_stopped=False,
            close_reason=None,
            problem=None,
            claim={},
            check=None,
            agent_usage=task.agent_usage if is_same_agent else NO_USAGE,
            began_at=task.began_at or self.at,
        )


class LaunchedRow(TaskRow):
    """The task's agent runs."""

    type_name = "launched"
    id: str
    host: str
    kind: str | None = None  # the agent's kind

    def apply(self, task: TaskState) -> TaskState:
        """Return the task with its agent's id, host and kind."""
        return task.replace(agent_id=self.id, host=self.host, agent_kind=self.kind)

    def describe(self) -> str:
        """Return where the agent runs."""
        return f"{self.slug}: runs on {self.host}"


class LaunchFailedRow(TaskRow):
    """The task has no agent, because the launch failed or the agent was destroyed."""

    type_name = "launch_failed"
    stage: str = ""  # launch, prompt or work
    error_kind: str = ""
    error: str = ""

    def apply(self, task: TaskState) -> TaskState:
        """Return the task, queued again."""
        return task.replace(state="queued", agent_id=None)

    def describe(self) -> str:
        """Return the stage and the error."""
        return f"{self.slug}: {self.stage} failed ({self.error_kind}): {self.error}"


class BusyRow(TaskRow):
    """The provider had no room for the task's host, which counts as no attempt."""

    type_name = "busy"
    error: str

    def apply(self, task: TaskState) -> TaskState:
        """Return the task, queued again."""
        return task.replace(state="queued", agent_id=None, attempt=task.attempt - 1)


class PromptedRow(TaskRow):
    """The agent has its prompt."""

    type_name = "prompted"
    proof: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as working."""
        return task.replace(state="working", is_prompted=True)


class ParkedRow(TaskRow):
    """The agent's model reached a limit, or the run did."""

    type_name = "parked"
    reason: str | None
    until: str | None = None
    stopped: bool = False

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as parked."""
        return task.replace(state="parked", reason=self.reason, parked_until=self.until, is_stopped=self.stopped)

    def describe(self) -> str:
        """Return the limit and its end."""
        end = f" until {self.until}" if self.until else ""
        return f"{self.slug}: parked: {self.reason}{end}"


class UnparkedRow(TaskRow):
    """A parked agent works again."""

    type_name = "unparked"
    why: str | None = None
    proof: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as working."""
        return task.replace(state="working", reason=None, parked_until=None, is_stopped=False)


class RemindRow(TaskRow):
    """The agent is about to get a message."""

    type_name = "remind"
    number: int  # reminders of this attempt
    why: str = ""

    def apply(self, task: TaskState) -> TaskState:
        """Return the task with one more reminder."""
        return task.replace(state="talking", reminders=self.number)

    def describe(self) -> str:
        """Return the reason of the reminder."""
        return f"{self.slug}: mngr reminds the agent ({self.why})"


class RemindedRow(TaskRow):
    """The agent got the message."""

    type_name = "reminded"
    proof: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as working."""
        return task.replace(state="working")


class PullRow(TaskRow):
    """The agent's work is about to be collected."""

    type_name = "pull"
    close_reason: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as being collected."""
        return task.replace(state="pulling", close_reason=self.close_reason)


class PullFailedRow(TaskRow):
    """The agent's work could not be collected."""

    type_name = "pull_failed"
    error: str

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as working."""
        return task.replace(state="working")

    def describe(self) -> str:
        """Return the error."""
        return f"{self.slug}: mngr could not pull the agent's work and will try again: {self.error}"


class PulledRow(TaskRow):
    """The agent's work is in the run's repository and folder."""

    type_name = "pulled"
    commit: str | None = None
    commits: int = 0
    claim: Mapping[str, object] | None = None
    problem: str | None = None
    usage: AgentUsage | None = None
    tokens_before_edit: int | None = None
    dirty: bool = False
    final: bool
    error: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task with the work, and with the usage since the last pull."""
        collected = task.replace(
            state="pulling" if self.final else "working",
            is_stopped=self.final,
            commit=task.commit if self.commit is None else self.commit,
            claim=task.claim if self.claim is None else self.claim,
            problem=self.problem,
            tokens_before_edit=task.tokens_before_edit if self.tokens_before_edit is None else self.tokens_before_edit,
        )
        return collected if self.usage is None else _book_usage(collected, self.usage)


def _book_usage(task: TaskState, usage: AgentUsage) -> TaskState:
    """Return the task with what its agent has used since the last count."""
    added = usage.subtract(task.agent_usage)
    purpose = task.task.usage_purpose or _choose_purpose(task)
    booked = task.usage_by_purpose.get(purpose)
    return task.replace(
        agent_usage=usage,
        usage=added if task.usage is None else add_usage(task.usage, added),
        usage_by_purpose={**task.usage_by_purpose, purpose: added if booked is None else add_usage(booked, added)},
    )


def _choose_purpose(task: TaskState) -> str:
    if task.attempt > 1:
        return "retries"
    return "reminders" if task.reminders else "work"


class CheckRow(TaskRow):
    """The claim is about to be verified."""

    type_name = "check"

    def apply(self, task: TaskState) -> TaskState:
        """Return the task as being checked."""
        return task.replace(state="checking")


class CheckedRow(TaskRow):
    """The claim was verified."""

    type_name = "checked"
    check: Mapping[str, object] | None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task with the result."""
        return task.replace(check=self.check)


class SettledRow(TaskRow):
    """The task has its outcome."""

    type_name = "settled"
    outcome: str
    reason: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the settled task."""
        return task.replace(state="settled", outcome=self.outcome, reason=self.reason, ended_at=self.at)

    def describe(self) -> str:
        """Return the outcome and its reason."""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.slug}: {self.outcome}{reason}"


class AgainRow(TaskRow):
    """A person queued the task again: for a new agent, or with a message for the agent that did it."""

    type_name = "again"
    hint: str = ""
    agent_kind: str | None = None
    agent_args: list[str] | None = None
    existing_agent: str | None = None
    message: str | None = None
    answered_claim: str | None = None
    usage_purpose: str | None = None

    def apply(self, task: TaskState) -> TaskState:
        """Return the queued task. A hint, a kind and arguments hold until others are given."""
        old = task.task
        new = old.replace(
            hint=self.hint or old.hint,
            agent_kind=self.agent_kind or old.agent_kind,
            agent_args=old.agent_args if self.agent_args is None else self.agent_args,
            existing_agent=self.existing_agent,
            branch=None,
            message=self.message,
            answered_claim=self.answered_claim,
            usage_purpose=self.usage_purpose,
        )
        return task.replace(state="queued", outcome=None, reason=None, ended_at=None, task=new)


class RestoredRow(TaskRow):
    """The agent did not answer a redo, so that the earlier result counts again."""

    type_name = "restored"
    commit: str | None
    claim: Mapping[str, object]
    check: Mapping[str, object] | None
    problem: str | None = None
    close_reason: str | None = None
    outcome: str | None
    reason: str | None

    def apply(self, task: TaskState) -> TaskState:
        """Return the task with its earlier result."""
        return task.replace(
            state="settled",
            commit=self.commit,
            claim=self.claim,
            check=self.check,
            problem=self.problem,
            close_reason=self.close_reason,
            outcome=self.outcome,
            reason=self.reason,
            ended_at=self.at,
        )


ROW_CLASSES: Mapping[str, type[JournalRow]] = {
    row_class.type_name: row_class
    for row_class in (
        NewTaskRow,
        LaunchRow,
        LaunchedRow,
        LaunchFailedRow,
        BusyRow,
        PromptedRow,
        ParkedRow,
        UnparkedRow,
        RemindRow,
        RemindedRow,
        PullRow,
        PullFailedRow,
        PulledRow,
        CheckRow,
        CheckedRow,
        SettledRow,
        AgainRow,
        RestoredRow,
        NewHostRow,
        ReleaseRow,
        ReleasedRow,
        ReleaseFailedRow,
        HostStoppedRow,
        HostStartedRow,
        AlertRow,
        AlarmRow,
        AlarmOverRow,
        WindowRow,
        PrepareRow,
        PreparedRow,
        UnpreparedRow,
        EndedRow,
        ResumedRow,
    )
}
