from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_swap(e2e: E2eSession) -> None:
    """Two things change places."""
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run("pantry add rice --shelf top", comment="one above")).to_succeed()
    expect(e2e.run("pantry add jam --shelf bottom", comment="one below")).to_succeed()
    expect(e2e.run("pantry swap rice jam")).to_succeed()
    expect(e2e.run("pantry find rice").stdout).to_equal("rice is on the bottom shelf")
    expect(e2e.run("pantry find jam").stdout).to_equal("jam is on the top shelf")
