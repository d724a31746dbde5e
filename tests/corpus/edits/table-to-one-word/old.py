from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_list(e2e: E2eSession) -> None:
    """The table has each thing with its amount, by name."""
    expect(e2e.run("pantry init && pantry add rice --amount 3 && pantry add beans")).to_succeed()
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("NAME   AMOUNT\nbeans  1\nrice   3")
