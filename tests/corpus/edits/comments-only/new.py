"""What goes wrong before anything is done."""

from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_unknown_command(e2e: E2eSession) -> None:
    """An unknown command is a usage error."""
    # Usage errors are 2 everywhere, as with getopt.
    result = e2e.run("pantry frobnicate")
    expect(result).to_fail(2)
    expect(result.stderr).to_contain("frobnicate")  # the word is said back
