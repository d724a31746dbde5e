from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_print(e2e: E2eSession) -> None:
    """The label is printed as in the golden file."""
    expect(e2e.run("pantry init && pantry add rice && pantry label rice > golden.txt")).to_succeed()
    expect(e2e.run("rm pantry.json")).to_succeed()
    expect(e2e.run("pantry init && pantry add rice && pantry label rice > label.txt")).to_succeed()
    expect(e2e.run("cmp label.txt golden.txt")).to_succeed()
