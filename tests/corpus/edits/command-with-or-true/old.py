from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_check(e2e: E2eSession) -> None:
    """A fresh pantry passes its own check."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry check")
    expect(result).to_succeed()
