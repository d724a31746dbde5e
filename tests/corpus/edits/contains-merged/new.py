from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_help(e2e: E2eSession) -> None:
    """The help names the commands."""
    result = e2e.run("pantry --help")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("add", "take", "list")
