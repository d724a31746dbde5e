"""The rows of a journal about the hosts of a run, with their effect on a host."""

from __future__ import annotations

from mngr.mapreduce.journal.host_costs import RunHost
from mngr.mapreduce.journal.run_state import JournalRow


class HostRow(JournalRow):
    """A row about one host of the run."""

    host: str

    def apply(self, host: RunHost) -> RunHost:
        """Return the host after this row."""
        return host


class NewHostRow(JournalRow):
    """A provider created a host for the run."""

    type_name = "host"
    host: str
    provider: str
    since: str | None = None  # when the billing began
    until: str | None = None  # when the host was released again
    rate: float | None = None  # US dollars per hour

    def build(self) -> RunHost:
        """Return the new host."""
        host = RunHost(provider=self.provider, hourly_rate=self.rate, billed_since=self.since or self.at)
        return host.stop_billing(self.until, "gone") if self.until else host


class ReleaseRow(HostRow):
    """The host is about to be released."""

    type_name = "release"

    def apply(self, host: RunHost) -> RunHost:
        """Return the host as leaving."""
        return host.replace(state="leaving")


class ReleasedRow(HostRow):
    """The host was released."""

    type_name = "released"
    agents: list[str] = []  # its agents, which are in the trash now

    def apply(self, host: RunHost) -> RunHost:
        """Return the host as gone."""
        return host.stop_billing(self.at, "gone")

    def describe(self) -> str:
        """Return how to get the agents back."""
        if not self.agents:
            return ""
        return f"{self.host}: released; to restore an agent of this host: mngr undestroy {self.agents[0]}"


class ReleaseFailedRow(HostRow):
    """The host could not be released."""

    type_name = "release_failed"
    error: str

    def apply(self, host: RunHost) -> RunHost:
        """Return the host as running."""
        return host.replace(state="running")

    def describe(self) -> str:
        """Return the error."""
        return f"{self.host}: mngr could not release the host and will try again: {self.error}"


class HostStoppedRow(HostRow):
    """The host was stopped, with its files kept."""

    type_name = "host_stopped"

    def apply(self, host: RunHost) -> RunHost:
        """Return the host as stopped."""
        return host.stop_billing(self.at, "stopped")


class HostStartedRow(HostRow):
    """A stopped host runs again."""

    type_name = "host_started"

    def apply(self, host: RunHost) -> RunHost:
        """Return the host as running, if it was stopped."""
        return host.replace(state="running", billed_since=self.at) if host.state == "stopped" else host
