"""Explains why no test could be collected: the last lines of the runner's own output, and a command to run next."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mngr.base.errors import MngrError
from mngr.base.shell import join
from mngr.tmr.prepare.network_failures import find_network_error_line
from mngr.tmr.runners.test_run import CollectedTests, Failure

_SHOWN_LINES = 12
_FIRST_TEST_HINT = (
    "write a test and commit it, for example: mkdir -p tests && echo 'def test_example(): assert True' >tests/test_example.py "
    "&& git add tests && git commit -m 'Add a test' && mngr tmr run --dry-run"
)
_NOTHING_FOUND = ("no tests ran", "no tests collected", "collected 0 items")


def make_collection_error(
    collected: CollectedTests, paths: Sequence[str] = (), *, has_network: bool = False
) -> MngrError:
    """Return the error for a collection without any test. `paths` are those that the user named."""
    text = "\n".join(collected.errors) or collected.output
    lines = [line for line in text.splitlines() if line.strip()]
    shown = "\n  ".join(lines[-_SHOWN_LINES:])
    if "No module named pytest" in text:
        return MngrError(
            f"pytest is not installed in the environment of the tests:\n  {shown}",
            "let mngr write settings that install it (this overwrites the existing settings): mngr init --force",
        )
    if not collected.failures and any(words in collected.output for words in _NOTHING_FOUND):
        place = f" in {', '.join(paths)}" if paths else ""
        hint = "look for tests in the whole project: mngr tmr run --dry-run" if paths else _FIRST_TEST_HINT
        return MngrError(f"pytest found no tests{place}:\n  {shown}", hint)
    if not has_network and find_network_error_line(text):
        return MngrError(
            f"pytest cannot collect any test, and a clean room has no network access:\n  {shown}",
            "if the tests need the network or a database, allow it: mngr tmr run --dry-run --isolation network",
        )
    return MngrError(
        f"pytest cannot collect any test:\n  {shown}",
        f"see the full error in a copy of the project: mngr create copy -- {join(collected.command)}; if a package is missing, let mngr write the settings again (this overwrites the existing settings): mngr init --force",
    )


def summarize_failure(failure: Failure) -> str:
    """Return the error of a file that could not be collected as one line."""
    text = failure.message + "\n" + failure.text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    error_lines = [
        line.removeprefix("E").strip() for line in lines if re.match(r"(E\s+)?[\w.]*(Error|Exception): ", line)
    ]
    return (error_lines or [f"{failure.exception}: {lines[0] if lines else ''}".strip(": ")])[-1]
