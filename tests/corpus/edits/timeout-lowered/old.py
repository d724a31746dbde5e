from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_sync(e2e: E2eSession) -> None:
    """A sync without changes has nothing to do."""
    expect(e2e.run("pantry init && pantry sync", timeout=120)).to_succeed()
    result = e2e.run("pantry sync", timeout=120)
    expect(result).to_succeed()
    expect(result.stdout).to_equal("nothing to do")
