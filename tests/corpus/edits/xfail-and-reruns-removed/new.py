from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_shelves(e2e: E2eSession) -> None:
    """Shelves are listed from top to bottom."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry shelves")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("top\nmiddle\nbottom")
