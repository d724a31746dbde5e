from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_oldest_goes(e2e: E2eSession) -> None:
    """A full history forgets the oldest."""
    expect(e2e.run("pantry init --history 2 && pantry add a && pantry add b && pantry add c")).to_succeed()
    result = e2e.run("pantry history --short")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("add c\nadd b")


def test_no_history(e2e: E2eSession) -> None:
    """A new pantry has none."""
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run("pantry history").stdout).to_be_empty()
