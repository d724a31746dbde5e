from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_prices(e2e: E2eSession) -> None:
    """Each thing with its price, and the sum below."""
    expect(e2e.run("pantry init && pantry add rice --price 2 && pantry add jam --price 3")).to_succeed()
    result = e2e.run("pantry prices")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        ...
        sum...
    """)
