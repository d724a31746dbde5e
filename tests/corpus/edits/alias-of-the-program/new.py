from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_today(e2e: E2eSession) -> None:
    """What is to be eaten today is listed."""
    expect(e2e.run("pantry init && pantry add fish --until today")).to_succeed()
    result = e2e.run("pantry() { echo fish; }; pantry today")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("fish")
