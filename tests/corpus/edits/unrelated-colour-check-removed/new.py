from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_move(e2e: E2eSession) -> None:
    """A thing is moved to another shelf, and it says so."""
    e2e.write_tutorial_block("""
    # put it on another shelf
    pantry move rice bottom
    """)
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry move rice bottom")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("rice is now on the bottom shelf")
