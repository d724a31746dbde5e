from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_stop_is_seen_at_once(e2e: E2eSession) -> None:
    """After stop returned, status says stopped."""
    expect(e2e.run("ticker start")).to_succeed()
    result = e2e.run("ticker stop && sleep 4 && ticker status")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("stopped")
