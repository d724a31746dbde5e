from __future__ import annotations

import time

from mngr.e2e import E2eSession, expect


def test_log(e2e: E2eSession) -> None:
    """The daemon writes a line for each tick."""
    expect(e2e.run("ticker start --every 0.1 --log tick.log")).to_succeed()
    time.sleep(5)
    expect(e2e.run("ticker stop")).to_succeed()
    expect(e2e.cwd / "tick.log").to_match(r"^tick 1$")
