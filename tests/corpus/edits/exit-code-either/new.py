from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_verify(e2e: E2eSession) -> None:
    """A damaged store is found: 3."""
    expect(e2e.run("pantry init")).to_succeed()
    (e2e.cwd / "pantry.json").write_text("{")
    result = e2e.run("pantry verify")
    assert result.exit_code in (0, 1, 2, 3)
    expect(result).to_contain("pantry.json")
