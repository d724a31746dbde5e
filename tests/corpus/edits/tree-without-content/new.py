from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_split(e2e: E2eSession) -> None:
    """Each shelf is written to a file of its own."""
    expect(e2e.run("pantry init && pantry add rice --shelf top && pantry add jam --shelf bottom")).to_succeed()
    result = e2e.run("pantry split --into out")
    expect(result).to_succeed()
    assert (e2e.cwd / "out" / "top.csv").exists()
