from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_history(e2e: E2eSession) -> None:
    """Each change is a line with its time, the latest first."""
    expect(e2e.run("pantry init && pantry add rice && pantry add jam && pantry take rice")).to_succeed()
    result = e2e.run("pantry history")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        [TIME] ... (*)
    """)
