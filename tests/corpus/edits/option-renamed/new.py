from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_list_sorted(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # sorted by name
    pantry list --sort item
    """)
    expect(e2e.run("pantry init && pantry add rice && pantry add jam")).to_succeed()
    result = e2e.run("pantry list --sort item")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        ITEM...
        jam...
        rice...
    """)
