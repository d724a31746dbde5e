from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_both_are_told(e2e: E2eSession) -> None:
    """Both hosts are asked at once and answer in any order, a line each."""
    result = e2e.run("fleet ping one two")
    expect(result).to_succeed()
    assert result.stdout.splitlines() == ["one: pong", "two: pong"]
