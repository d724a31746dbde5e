from __future__ import annotations

from mngr.e2e import E2eSession, expect


EMPTY = "nothing is here yet; pantry add NAME"


def test_list_empty(e2e: E2eSession) -> None:
    """An empty pantry says how to go on."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    expect(result.stdout).to_equal(EMPTY)
