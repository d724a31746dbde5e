"""Recognizes tests that fail because a clean room has no network: name resolution, servers and databases."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mngr.base.model import Struct
from mngr.base.size_format import choose_noun, format_count
from mngr.tmr.runners.test_run import Failure, TestRun

_MAX_LINE = 200
# Messages of the C library, Python, and clients of HTTP servers and databases when they cannot connect.
_NETWORK_ERROR = re.compile(
    r"name resolution|name or service not known|nodename nor servname|getaddrinfo failed|no address associated with hostname|"
    r"could not (resolve|translate) host|failed to resolve|network is unreachable|no route to host|connection refused|"
    r"connect call failed|could not connect to server|can't connect to (\w+ )?server|cannot connect to host|cannot assign requested address|"
    r"error 111 connecting|serverselectiontimeouterror|failed to establish a new connection|\bgaierror\b|\bconnectionrefusederror\b",
    re.IGNORECASE,
)


class NetworkFailures(Struct):
    """The tests that failed because they reached no other machine and no server."""

    count: int
    example: str  # one of these tests
    error: str  # its error, as one line
    command: str = ""  # runs the same tests with network access; the command line adds it

    def describe(self) -> str:
        """Return what failed and what helps, as sentences for people."""
        help_text = f" If the tests need the network or a database, run: {self.command}" if self.command else ""
        return (
            f"{format_count(self.count, 'test')} {choose_noun(self.count, 'fails', 'fail')} at a network connection, for example "
            f"{self.example}: {self.error}. The clean room has no network access.{help_text}"
        )


def find_network_failures(runs: Iterable[TestRun | None]) -> NetworkFailures | None:
    """Return the failed runs whose errors name a missing network or server, or None if there are none."""
    errors = {run.test: error for run in runs if run is not None and (error := _find_network_error(run))}
    if not errors:
        return None
    example, error = next(iter(errors.items()))
    return NetworkFailures(count=len(errors), example=example, error=error)


def find_network_error_line(text: str) -> str:
    """Return the last line that names a missing network or server, or an empty text."""
    lines = [line.strip() for line in text.splitlines() if _NETWORK_ERROR.search(line)]
    return lines[-1].removeprefix("E ").strip()[:_MAX_LINE].rstrip(".") if lines else ""


def _find_network_error(run: TestRun) -> str:
    """Return the error of the first failure that names a missing network or server, or an empty text."""
    return next(filter(None, map(_find_in_failure, run.failures)), "") or find_network_error_line(run.why)


def _find_in_failure(failure: Failure) -> str:
    summary = f"{failure.exception}: {failure.message}" if failure.message else failure.exception
    return find_network_error_line(summary) or find_network_error_line(failure.text)
