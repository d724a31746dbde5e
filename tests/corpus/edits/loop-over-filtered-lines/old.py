from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_shelf_is_on_each_line(e2e: E2eSession) -> None:
    """With --shelves each line ends with the shelf."""
    expect(e2e.run("pantry init && pantry add rice --shelf top && pantry add jam --shelf top")).to_succeed()
    result = e2e.run("pantry list --shelves")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("jam (top)\nrice (top)")
