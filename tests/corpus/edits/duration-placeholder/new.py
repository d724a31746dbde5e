from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_import(e2e: E2eSession) -> None:
    """Says how many things were taken in and how long it took."""
    (e2e.cwd / "in.csv").write_text("rice,1\njam,2\n")
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry import in.csv")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        2 things
        took [DURATION]
    """)
