from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_no_such_shelf(e2e: E2eSession) -> None:
    """A shelf that does not exist is a usage error (2) that names those that do."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry add rice --shelf attic")
    expect(result).to_fail()
    expect(result).to_contain("Error")


def test_shelves(e2e: E2eSession) -> None:
    """There are three shelves."""
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run("pantry shelves").stdout).to_equal("top\nmiddle\nbottom")
