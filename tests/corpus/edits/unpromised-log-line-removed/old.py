from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_count(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # how many things there are; the number alone
    pantry count
    """)
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry count")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("1")
    assert "opened store v3" in (e2e.cwd / "debug.log").read_text()
