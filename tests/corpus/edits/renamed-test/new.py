from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_take_what_is_not_there(e2e: E2eSession) -> None:
    """A thing that is not there cannot be taken."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry take plums")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("nothing is called plums")
