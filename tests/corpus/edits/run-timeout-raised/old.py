from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_sync_is_quick(e2e: E2eSession) -> None:
    """A sync without changes ends within five seconds."""
    expect(e2e.run("pantry init && pantry sync")).to_succeed()
    result = e2e.run("pantry sync", timeout=5)
    expect(result).to_succeed()
    expect(result.stdout).to_equal("nothing to do")
