from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_price(e2e: E2eSession) -> None:
    """The price of all things is their sum with two places."""
    expect(e2e.run("pantry init && pantry add rice --price 1.5 && pantry add jam --price 2")).to_succeed()
    result = e2e.run("pantry price")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("3.50")
