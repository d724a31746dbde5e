from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_only_the_top_shelf(e2e: E2eSession) -> None:
    """With --shelf only what is on that shelf is listed."""
    expect(e2e.run("pantry init && pantry add rice --shelf top && pantry add jam")).to_succeed()
    result = e2e.run("pantry list --shelf top --long")
    expect(result).to_succeed()
    rows = result.stdout.splitlines()
    assert all(row.endswith("top") for row in rows if "top" in row)
