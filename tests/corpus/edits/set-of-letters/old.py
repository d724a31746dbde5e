from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_steps(e2e: E2eSession) -> None:
    """A recipe's steps are in order, and "stir" comes after each."""
    expect(e2e.run("pantry init && pantry recipe soup --step boil --step salt")).to_succeed()
    result = e2e.run("pantry cook soup")
    expect(result).to_succeed()
    assert result.stdout.splitlines() == ["boil", "stir", "salt", "stir"]
