from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_confirm(e2e: E2eSession) -> None:
    """It asks before all is thrown away."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    with e2e.tty("pantry clear", name="clear") as terminal:
        terminal.wait_for(r"Really\? \[y/n\]")
        terminal.type("n")
        terminal.press("Enter")
        assert terminal.wait() == 1
    expect(e2e.run("pantry list --names").stdout).to_equal("rice")
