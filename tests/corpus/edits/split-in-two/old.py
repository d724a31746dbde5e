from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_count(e2e: E2eSession) -> None:
    """An empty pantry has 0 things, one with rice has 1."""
    expect(e2e.run("pantry init")).to_succeed()
    empty = e2e.run("pantry count")
    expect(empty).to_succeed()
    expect(empty.stdout).to_equal("0")
    expect(e2e.run("pantry add rice")).to_succeed()
    one = e2e.run("pantry count")
    expect(one).to_succeed()
    expect(one.stdout).to_equal("1")
