from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_rename(e2e: E2eSession) -> None:
    """A thing gets another name, and it is said."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry rename rice basmati")
    assert result.exit_code == 0
    assert result.stdout == "rice is called basmati now\n"
