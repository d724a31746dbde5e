from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_id(e2e: E2eSession) -> None:
    """The same name has the same id, everywhere."""
    result = e2e.run("pantry id rice")
    expect(result).to_succeed()
    assert result.stdout.strip()[:1] == "5d41402abc4b"[:1]
