from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_hide(e2e: E2eSession) -> None:
    """What is hidden is not listed."""
    expect(e2e.run("pantry init && pantry add rice && pantry add jam && pantry hide jam")).to_succeed()
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("rice").not_to_contain("jam")
