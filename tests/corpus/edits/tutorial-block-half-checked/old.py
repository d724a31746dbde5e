from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_halves(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # halves are shown, too
    pantry add milk --amount 2.5 --unit l
    pantry list
    """)
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run("pantry add milk --amount 2.5 --unit l")).to_succeed()
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("2.5 l")


def test_whole_numbers(e2e: E2eSession) -> None:
    """Whole numbers have no point."""
    expect(e2e.run("pantry init && pantry add milk --amount 2")).to_succeed()
    expect(e2e.run("pantry list").stdout).to_contain("milk  2\n").not_to_contain("2.0")
