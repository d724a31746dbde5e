"""The rows of a journal about the whole run: messages, alarms, limits, the snapshot for new hosts, and the end."""

from __future__ import annotations

from mngr.base.size_format import format_count
from mngr.mapreduce.journal.run_state import JournalRow


class MessageRow(JournalRow):
    """A message to the person who watches the run."""

    text: str

    def describe(self) -> str:
        """Return the message."""
        return self.text


class AlertRow(MessageRow):
    """Something that a person should know."""

    type_name = "alert"
    wait_reason: str | None = None  # why nothing is launched


class AlarmRow(MessageRow):
    """Several tasks failed alike, or the login is dead."""

    type_name = "alarm"
    error_kind: str = ""
    stage: str = ""
    tasks: list[str] = []

    def describe(self) -> str:
        """Return the message, marked as an alarm."""
        return f"ALARM: {self.text}"


class AlarmOverRow(MessageRow):
    """The alarm is over."""

    type_name = "alarm_over"


class WindowRow(JournalRow):
    """Fewer agents run at the same time from now on."""

    type_name = "window"
    size: int
    why: str | None = None

    def describe(self) -> str:
        """Return the new limit."""
        return f"{self.why}: from now on mngr runs at most {format_count(self.size, 'agent')} at the same time"


class PrepareRow(JournalRow):
    """The snapshot for new hosts is about to be made."""

    type_name = "prepare"
    snapshot: str
    provider: str | None = None

    def describe(self) -> str:
        """Return what is being prepared."""
        return f"mngr prepares one host of {self.provider}, and then creates all other hosts from its snapshot"


class PreparedRow(JournalRow):
    """The snapshot for new hosts is ready, or could not be made."""

    type_name = "prepared"
    snapshot: str | None = None
    error: str | None = None


class UnpreparedRow(JournalRow):
    """The snapshot for new hosts was deleted."""

    type_name = "unprepared"
    snapshot: str


class EndedRow(JournalRow):
    """The run ended."""

    type_name = "ended"
    outcome: str  # settled | parked
    why: str | None = None


class ResumedRow(JournalRow):
    """The run continues after an interruption."""

    type_name = "resumed"
