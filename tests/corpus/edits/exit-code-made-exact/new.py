from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_bad_amount(e2e: E2eSession) -> None:
    """An amount that is no number is a usage error: 2."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry add rice --amount many")
    expect(result).to_fail(2)
    expect(result.stderr).to_contain("'many' is no number")
