from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_create(e2e: E2eSession) -> None:
    """A command runs under a name."""
    result = e2e.run("mngr create foo -- sleep 1000")
    expect(result).to_succeed()
    expect(result.stdout).to_match("^foo runs in ")
    expect(e2e.run("mngr list --format '{name}'").stdout).to_equal("foo")
