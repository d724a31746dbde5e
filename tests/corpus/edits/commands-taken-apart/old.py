from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_swap(e2e: E2eSession) -> None:
    """Two things change places."""
    expect(
        e2e.run("pantry init && pantry add rice --shelf top && pantry add jam --shelf bottom")
    ).to_succeed()
    expect(e2e.run("pantry swap rice jam")).to_succeed()
    expect(e2e.run("pantry find rice").stdout).to_equal("rice is on the bottom shelf")
    expect(e2e.run("pantry find jam").stdout).to_equal("jam is on the top shelf")
