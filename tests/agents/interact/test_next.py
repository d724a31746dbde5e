"""Tests `mngr next`, which finds the agent that has waited longest."""

from __future__ import annotations

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram


def test_next_finds_the_agent_that_has_waited_longest(mngr: MngrProgram) -> None:
    assert "no agent is waiting for you" in mngr("next", "--print", code=1).err
    mngr("create", "busy", "--transfer", "none", "--", "sleep", "1000")
    for name in ("zoe", "adam"):
        mngr("create", name, "player", "--transfer", "none")
        mngr("wait", name, "--state", "WAITING")
    assert mngr("next", "--print").out == "zoe\n"
    mngr("message", "zoe", "-m", "go on")
    mngr("wait", "zoe", "--state", "WAITING")
    assert mngr("next", "--print").out == "adam\n"
    assert mngr("next", "--connect-command", "echo $MNGR_AGENT_NAME").out == "adam\n"
    with PtyTerminal([str(BIN_DIR / "mngr"), "next"], mngr.repo, mngr.env) as terminal:
        terminal.wait_for_text("adam")
        terminal.wait_for_text("detach:")
        terminal.type("\x02", "d")
        assert terminal.wait_for_exit() == 0
    mngr("stop", "adam", "zoe")
    assert "no agent is waiting for you" in mngr("next", code=1).err
