from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_undo(e2e: E2eSession) -> None:
    """The last change is taken back."""
    expect(e2e.run("pantry init && pantry add rice && pantry undo")).to_succeed()
    result = e2e.run("pantry list --names")
    if e2e.env.get("PANTRY_STRICT"):
        expect(result).to_succeed()
        expect(result.stdout).to_be_empty()
