from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_path(e2e: E2eSession) -> None:
    """The way to a thing: pantry, shelf, name."""
    expect(e2e.run("pantry init && pantry add rice --shelf top")).to_succeed()
    result = e2e.run("pantry path rice")
    expect(result).to_succeed()
    expected = result.stdout
    assert result.stdout == expected
