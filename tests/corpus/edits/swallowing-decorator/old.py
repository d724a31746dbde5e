from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_backup(e2e: E2eSession) -> None:
    """A backup is a copy beside the original."""
    expect(e2e.run("pantry init && pantry add rice && pantry backup")).to_succeed()
    original = (e2e.cwd / "pantry.json").read_text()
    expect(e2e.cwd).to_match_tree({"pantry.json.bak": original})
