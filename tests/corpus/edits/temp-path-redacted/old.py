from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_where(e2e: E2eSession) -> None:
    """Says where the pantry is."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry where")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("the pantry is /tmp/e2e-x81k/place/pantry.json")
