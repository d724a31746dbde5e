"""Everything that can go wrong on purpose: a message, the next step, an exit code."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class MngrError(Exception):
    """An expected failure: what happened and why, with a hint that names the next step."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MngrError):
    """The command line or a setting cannot be understood."""

    exit_code = 2


class PartialFailure(MngrError):
    """Some of several targets failed."""

    exit_code = 4


class TimedOut(MngrError):
    """What was waited for did not come in time."""

    exit_code = 5


class Unreachable(MngrError):
    """A host or provider could not be reached."""

    exit_code = 6


class HostStopped(Unreachable):
    """A host is stopped, with all that is on it; no other command than `start` starts it."""

    def __init__(self, provider: str, host: str, why: str | None = None) -> None:
        said = f"the host {host} is stopped" + (f": {why}" if why else "")
        super().__init__(said, f"start it: mngr start @{host}.{provider}")
        self.provider = provider
        self.host = host
        self.why = why


class HostGone(Unreachable):
    """A host surely is no more, and with it its files: it can be made anew, with what is known elsewhere, or forgotten."""

    def __init__(self, provider: str, host: str, why: str) -> None:
        super().__init__(
            f"the host {host} is gone: {why}",
            f"what nobody pulled from it is lost; forget it: mngr destroy @{host}.{provider}; "
            f"or make it anew, and its agents with what was kept of them: mngr start @{host}.{provider}",
        )
        self.provider = provider
        self.host = host


class EngineBusy(MngrError):
    """An engine has no room or wants fewer calls, for now; nothing was made, and the same may be had later."""

    exit_code = 5


class ServiceUnavailable(MngrError):
    """Who was to do it could not even be asked: a program is not installed, or we are not let in. Nothing was made."""


class ConnectionLost(Unreachable):
    """The connection ended while a command of the user's ran there."""

    exit_code = 255


class NotFound(MngrError):
    """No agent, host, snapshot or setting has that name."""


def suggest_closest(word: str, known: Sequence[str]) -> str | None:
    """A hint that names the nearest known word, or None."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.65)
    return f"did you mean {near[0]!r}?" if near else None
