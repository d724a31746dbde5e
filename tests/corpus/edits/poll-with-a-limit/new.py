from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_log(e2e: E2eSession) -> None:
    """The daemon writes a line for each tick."""
    expect(e2e.run("ticker start --every 0.1 --log tick.log")).to_succeed()
    expect(e2e.run("until grep -qx 'tick 1' tick.log; do sleep 0.05; done", timeout=5)).to_succeed()
    expect(e2e.run("ticker stop")).to_succeed()
    expect(e2e.cwd / "tick.log").to_match(r"^tick 1$")
