from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_take(e2e: E2eSession) -> None:
    """Taking says what is left."""
    expect(e2e.run("pantry init && pantry add rice --amount 2")).to_succeed()
    expect(e2e.run("pantry take rice").stdout).to_equal("1 of rice is left")


def test_add(e2e: E2eSession) -> None:
    """Adding says what was added."""
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run("pantry add rice").stdout).to_equal("added rice")
