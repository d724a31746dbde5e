"""The errors that mngr expects. Each has a message, a hint with the next step, and an exit code."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# docs/start/install.md says the same.
UPDATE_HINT = "update mngr on this machine: git -C mngr pull && pipx install --force ./mngr"


class MngrError(Exception):
    """An expected failure. The message says what failed and why, the hint names the next step."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MngrError):
    """mngr cannot understand the command line or a setting."""

    exit_code = 2


class PartialFailure(MngrError):
    """An operation on several targets failed for some of them."""

    exit_code = 4


class TimedOut(MngrError):
    """An operation took longer than its time limit."""

    exit_code = 5


class Unreachable(MngrError):
    """mngr could not reach a host or provider."""

    exit_code = 6


class HostStopped(Unreachable):
    """The host is stopped and its files are kept. Only `mngr start` starts it again."""

    def __init__(self, provider: str, host: str, why: str | None = None) -> None:
        message = f"the host {host} is stopped" + (f": {why}" if why else "")
        super().__init__(message, f"start it: mngr start @{host}.{provider}")
        self.provider = provider
        self.host = host
        self.why = why


class HostGone(Unreachable):
    """The host and its files no longer exist. The user can recreate it from backups or forget it."""

    def __init__(self, provider: str, host: str, why: str) -> None:
        super().__init__(
            f"the host {host} is gone: {why}",
            f"recreate the host and its agents from their last backup: mngr start @{host}.{provider}; "
            f"or remove the host from the list: mngr destroy @{host}.{provider}",
        )
        self.provider = provider
        self.host = host


class EngineBusy(MngrError):
    """An engine has no capacity or limits the rate of calls. Nothing was created; a later try may succeed."""

    exit_code = 5


class ServiceUnavailable(MngrError):
    """A program is not installed, or a service rejects the credentials. Nothing was created."""


class ConnectionLost(Unreachable):
    """The connection ended while a command of the user was running on the host."""

    exit_code = 255


class NotFound(MngrError):
    """No agent, host, snapshot or setting has this name."""


def describe_file_error(error: OSError | ValueError) -> str:
    """Return in words why a file could not be read or written."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    return getattr(error, "strerror", None) or str(error)


def suggest_closest(word: str, known: Sequence[str]) -> str | None:
    """Return a hint that names the most similar known word, or None when no word is similar."""
    limit = min(len(word) - 1, max(1, len(word) // 4), 3)
    similar = [candidate for candidate in known if abs(len(candidate) - len(word)) <= limit]
    typos, closest = min(((_count_typos(word, candidate), candidate) for candidate in similar), default=(limit + 1, ""))
    return f"did you mean {closest!r}?" if typos <= limit else None


def _get_replacement_cost(letter: str, other: str) -> int:
    """Return how many typos it counts to write one letter in place of the other."""
    if letter == other:
        return 0
    return 3 if letter.isdigit() and other.isdigit() else 1


def _count_typos(word: str, other: str) -> int:
    """Return how many letters were added, left out, replaced or swapped to make `word` from `other`.

    A replaced digit counts three times: w-1 is not a misspelt w-2, but another agent.
    """
    before_last: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(word):
        current = [row + 1]
        for column, expected in enumerate(other):
            best = min(
                last[column] + _get_replacement_cost(letter, expected), last[column + 1] + 1, current[column] + 1
            )
            if row and column and letter == other[column - 1] and expected == word[row - 1]:
                best = min(best, before_last[column - 1] + 1)
            current.append(best)
        before_last, last = last, current
    return last[-1]
