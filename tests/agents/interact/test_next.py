"""`mngr next`: who has waited longest."""

from __future__ import annotations

from mngr.testkit.contract.terminal import Terminal
from tests.conftest import BIN, Mngr


def test_the_longest_waiting_comes_first(mngr: Mngr) -> None:
    assert "no agent waits for you" in mngr("next", "--print", code=1).err
    mngr("create", "busy", "--transfer", "none", "--", "sleep", "1000")
    for name in ("zoe", "adam"):
        mngr("create", name, "player", "--transfer", "none")
        mngr("wait", name, "--state", "WAITING")
    assert mngr("next", "--print").out == "zoe\n"
    mngr("message", "zoe", "-m", "go on")
    mngr("wait", "zoe", "--state", "WAITING")
    assert mngr("next", "--print").out == "adam\n"
    assert mngr("next", "--connect-command", "echo $MNGR_AGENT_NAME").out == "adam\n"
    with Terminal([str(BIN / "mngr"), "next"], mngr.repo, mngr.env) as terminal:
        terminal.see("adam")
        terminal.see("detach:")
        terminal.type("\x02", "d")
        assert terminal.end() == 0
    mngr("stop", "adam", "zoe")
    assert "no agent waits for you" in mngr("next", code=1).err
