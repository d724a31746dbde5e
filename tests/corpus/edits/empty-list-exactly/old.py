from __future__ import annotations

import json

from mngr.e2e import E2eSession, expect


def test_nothing_lent(e2e: E2eSession) -> None:
    """Nothing is lent at first."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry lent --json")
    expect(result).to_succeed()
    found = json.loads(result.stdout)
    assert not found["lent"]
    assert found["count"] in (0, None)
