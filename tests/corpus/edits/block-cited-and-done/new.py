from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_count(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # how many things are there
    pantry count
    """)
    expect(e2e.run("pantry init && pantry add rice && pantry add jam")).to_succeed()
    result = e2e.run("pantry count")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("2")


def test_init(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # make a pantry in this directory
    pantry init
    """)
    result = e2e.run("pantry init")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("made pantry.json")
