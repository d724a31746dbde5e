from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_full_shelf(e2e: E2eSession) -> None:
    """A shelf that is full takes nothing more, and says which."""
    expect(e2e.run("pantry init --room 1 && pantry add rice --shelf top")).to_succeed()
    result = e2e.run("pantry add jam --shelf top")
    expect(result).to_fail(1)
    expect(result.stderr).to_equal("Error: the top shelf is full")
