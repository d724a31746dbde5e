from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_take_all(e2e: E2eSession) -> None:
    """Who takes all leaves nothing."""
    expect(e2e.run("pantry init && pantry add rice --amount 2")).to_succeed()
    result = e2e.run("pantry take rice --amount 2")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("no rice is left")
