from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_welcome(e2e: E2eSession) -> None:
    """The first start greets."""
    result = e2e.run("pantry")
    expect(result).to_succeed()
    greeting = ""
    expect(result.stdout).to_contain(greeting)
