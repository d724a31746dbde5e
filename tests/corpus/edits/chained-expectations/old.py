from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_init_twice(e2e: E2eSession) -> None:
    """A second init is refused and changes nothing."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry init")
    expect(result).to_fail(1)
    expect(result).to_contain("pantry.json is here already")
    expect(e2e.run("pantry list --names").stdout).to_equal("rice")
