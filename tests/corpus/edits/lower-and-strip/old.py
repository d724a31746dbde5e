from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_banner(e2e: E2eSession) -> None:
    """The title is in capitals, with a blank line above and below."""
    result = e2e.run("pantry banner Rice")
    expect(result).to_succeed()
    assert result.stdout == "\n  RICE\n\n"


def test_banner_of_nothing(e2e: E2eSession) -> None:
    """Nothing for an empty title."""
    expect(e2e.run("pantry banner ''").stdout).to_be_empty()
