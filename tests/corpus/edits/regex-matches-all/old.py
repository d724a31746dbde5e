from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_stats(e2e: E2eSession) -> None:
    """How many things on how many shelves."""
    expect(e2e.run("pantry init && pantry add rice && pantry add jam --shelf top")).to_succeed()
    result = e2e.run("pantry stats")
    expect(result).to_succeed()
    expect(result.stdout).to_match(r"^2 things on 2 shelves$")
