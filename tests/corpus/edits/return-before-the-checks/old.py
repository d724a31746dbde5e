from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_suggest(e2e: E2eSession) -> None:
    """What there is most of is suggested."""
    expect(e2e.run("pantry init && pantry add rice --amount 9 && pantry add jam")).to_succeed()
    result = e2e.run("pantry suggest")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("how about rice?")
