from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_find(e2e: E2eSession) -> None:
    """Where a thing is."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry find ric")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice is on the middle shelf")
    expect(result.stderr).to_be_empty()
