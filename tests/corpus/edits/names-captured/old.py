from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_ticket(e2e: E2eSession) -> None:
    """A ticket is shown under the id that it was given."""
    expect(e2e.run("desk init")).to_succeed()
    opened = e2e.run("desk open 'no light'")
    expect(opened).to_succeed()
    expect(opened.stdout).to_match_lines("opened T-81f3")
    shown = e2e.run("desk show --latest")
    expect(shown).to_succeed()
    expect(shown.stdout).to_match_lines("T-81f3: no light")
