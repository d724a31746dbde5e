from __future__ import annotations

from mngr.e2e import E2eSession, expect


def prints(e2e: E2eSession, command: str, text: str) -> None:
    result = e2e.run(command)
    expect(result).to_succeed()
    expect(result.stdout).to_equal(text)
    expect(result.stderr).to_be_empty()


def test_low(e2e: E2eSession) -> None:
    """Only what runs low is in the table."""
    expect(e2e.run("pantry init && pantry add jam --amount 9 && pantry add salt")).to_succeed()
    prints(e2e, "pantry low", "ITEM  AMOUNT\nsalt  1")
