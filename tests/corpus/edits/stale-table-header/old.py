from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_list(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # everything
    pantry list
    """)
    expect(e2e.run("pantry init && pantry add jam --amount 3 --shelf top && pantry add beans")).to_succeed()
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        NAME   AMOUNT  SHELF
        beans  1       middle
        jam    3       top
    """)
