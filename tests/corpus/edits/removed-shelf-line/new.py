from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_add_says_where(e2e: E2eSession) -> None:
    """Adding a thing says what was added and on which shelf it is."""
    e2e.write_tutorial_block("""
    # put something on a shelf
    pantry add rice --shelf top
    """)
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry add rice --shelf top")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("added rice")
