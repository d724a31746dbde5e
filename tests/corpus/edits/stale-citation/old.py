from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_low(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what runs low
    pantry low
    """)
    expect(e2e.run("pantry init && pantry add salt")).to_succeed()
    result = e2e.run("pantry low")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("1 thing runs low: salt")
