from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_lock(e2e: E2eSession) -> None:
    """A second init at the same time waits for the first and succeeds."""
    result = e2e.run("pantry init & pantry init --if-missing; wait")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("made pantry.json")
