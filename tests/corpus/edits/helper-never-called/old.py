from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_take(e2e: E2eSession) -> None:
    """Taking some says what is left."""
    expect(e2e.run("pantry init && pantry add rice --amount 5")).to_succeed()
    result = e2e.run("pantry take rice --amount 2")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("3 of rice are left")
