from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_add(e2e: E2eSession) -> None:
    """What was added is said."""
    e2e.write_tutorial_block("""
    # put something in
    pantry add rice
    """)
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry add rice")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("added rice to the pantry")
