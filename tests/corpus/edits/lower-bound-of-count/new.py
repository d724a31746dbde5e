from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_old_backups_go(e2e: E2eSession) -> None:
    """Of many backups the latest three are kept."""
    expect(e2e.run("pantry init")).to_succeed()
    for name in ("rice", "jam", "salt", "oil", "tea"):
        expect(e2e.run(f"pantry add {name} && pantry backup")).to_succeed()
    kept = sorted(e2e.cwd.glob("*.bak"))
    assert len(kept) >= 1
    expect(kept[-1]).to_contain("tea")
