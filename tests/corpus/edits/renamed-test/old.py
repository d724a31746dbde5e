from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_1(e2e: E2eSession) -> None:
    """A thing that is not there cannot be taken."""
    expect(e2e.run("pantry init")).to_succeed()
    r = e2e.run("pantry take plums")
    expect(r).to_fail(1)
    expect(r.stderr).to_contain("nothing is called plums")
