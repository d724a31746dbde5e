from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_lend(e2e: E2eSession) -> None:
    """What is lent is listed with whom."""
    expect(e2e.run("pantry init && pantry add pan && pantry lend pan Ada")).to_succeed()
    result = e2e.run("pantry lent")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("pan: Ada")


def test_lend_twice(e2e: E2eSession) -> None:
    """What is lent cannot be lent again."""
    expect(e2e.run("pantry init && pantry add pan && pantry lend pan Ada")).to_succeed()
    result = e2e.run("pantry lend pan Bob")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("Ada has the pan")
