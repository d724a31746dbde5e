"""Tests `mngr connect` in a real terminal: attach, detach, resize and choose an agent."""

from __future__ import annotations

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for

RUN = ("--", "sleep", "1000")
SIZE = "trap 'stty size' WINCH; echo hello from foo; while :; do sleep 0.05; done"


def run_in_terminal(mngr: MngrProgram, *words: str, **size: int) -> PtyTerminal:
    """Run mngr in a terminal of this size."""
    return PtyTerminal([str(BIN_DIR / "mngr"), *words], mngr.repo, mngr.env, **size)


def test_attach_shows_the_screen_resizes_and_detaches(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", SIZE)
    wait_for(lambda: "hello" in mngr.run_tmux("capture-pane", "-p", "-t", "=foo:"))
    with run_in_terminal(mngr, "connect", "foo", rows=30, columns=100) as terminal:
        terminal.wait_for_text("hello from foo")
        wait_for(lambda: "29 100" in mngr.run_tmux("capture-pane", "-p", "-t", "=foo:"))
        terminal.resize(20, 80)
        wait_for(lambda: "19 80" in mngr.run_tmux("capture-pane", "-p", "-t", "=foo:"))
        terminal.wait_for_text("detach:")
        terminal.type("\x02", "d")
        assert terminal.wait_for_exit() == 0
        assert "detached" in terminal.shown
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_typed_text_reaches_the_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "cat")
    with run_in_terminal(mngr, "conn", "foo") as terminal:
        terminal.wait_for_text("foo")
        terminal.type("typed é words\r")
        wait_for(lambda: mngr.run_tmux("capture-pane", "-p", "-t", "=foo:").count("typed é words") == 2)


def test_create_attaches_in_a_terminal_unless_an_option_forbids_it(mngr: MngrProgram) -> None:
    with run_in_terminal(mngr, "create", "foo", "--", "sh", "-c", SIZE) as terminal:
        terminal.wait_for_text("detach:")
        terminal.wait_for_text("hello from foo")
        terminal.type("\x02", "d")
        assert terminal.wait_for_exit() == 0
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    with run_in_terminal(mngr, "create", "bar", "--no-connect", *RUN) as terminal:
        assert terminal.wait_for_exit() == 0
        assert "bar runs in" in terminal.shown
    with run_in_terminal(
        mngr, "create", "baz", "-S", "commands.create.connect_command=echo I see $MNGR_AGENT_NAME", *RUN
    ) as terminal:
        terminal.wait_for_text("I see baz")
    with run_in_terminal(mngr, "create", "w", "--count", "2", "--connect", *RUN) as terminal:
        assert terminal.wait_for_exit() == 2


def test_in_a_terminal_create_leaves_dirty_files_behind_with_a_note(mngr: MngrProgram) -> None:
    (mngr.repo / "new.txt").write_text("x")
    with run_in_terminal(mngr, "create", "foo", "--no-connect", *RUN) as terminal:
        terminal.wait_for_text("mngr does not copy 1 uncommitted change")
        assert terminal.wait_for_exit() == 0
    assert (
        run_git(mngr.get_work_dir("foo"), "status", "--porcelain") == ""
        and not (mngr.get_work_dir("foo") / "new.txt").exists()
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["\r"], "alpha"),
        (["\x1b[B", "\x1b[B", "\r"], "gamma"),
        (["\x1b[B", "\x1b[B", "\x1b[A", "\r"], "beta"),
        (["\x1b[B\x1b[B\r"], "gamma"),
        (["b", "e", "\r"], "beta"),
        (["gam\r"], "gamma"),
        (["zz", "\x7f\x7f", "bet", "\r"], "beta"),
        (["\x0e\r"], "beta"),
        (["\x1b[A\r"], "alpha"),
    ],
)
def test_the_picker_chooses_with_arrows_and_typing(mngr: MngrProgram, keys: list[str], chosen: str) -> None:
    for name in ("gamma", "alpha", "beta"):
        mngr("create", name, "--transfer", "none", *RUN)
    with run_in_terminal(mngr, "connect", "--connect-command", "echo I see $MNGR_AGENT_NAME") as terminal:
        terminal.wait_for_text("gamma")
        for key in keys:
            terminal.type(key)
            if key not in keys[-1:]:
                terminal.wait_for_text("connect to:")
        terminal.wait_for_text(f"I see {chosen}")


@pytest.mark.parametrize("key", ["\x1b", "\x04", "\x03"])
def test_the_picker_can_be_cancelled(mngr: MngrProgram, key: str) -> None:
    mngr("create", "foo", "--transfer", "none", *RUN)
    with run_in_terminal(mngr, "connect") as terminal:
        terminal.wait_for_text("foo")
        terminal.type(key)
        code = terminal.wait_for_exit()
        assert code == (130 if key == "\x03" else 1)
        assert "Traceback" not in terminal.shown


def test_connect_without_a_terminal_fails_with_a_hint(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    result = mngr("connect", "foo", code=1)
    assert result.err == "Error: mngr connect needs a terminal\nHint: print the agent's screen: mngr capture foo\n"
    assert "name the agent" in mngr("connect", code=2).err
    assert "there is no agent 'nobody'" in mngr("connect", "nobody", "--connect-command", "true", code=1).err


def test_connect_can_start_a_stopped_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", SIZE)
    mngr("stop", "foo")
    with run_in_terminal(mngr, "connect", "foo") as terminal:
        assert terminal.wait_for_exit() == 1
        assert "foo is not running (state: STOPPED)" in terminal.shown and "mngr start foo" in terminal.shown
    with run_in_terminal(mngr, "connect", "foo", "--start") as terminal:
        terminal.wait_for_text("hello from foo")
    assert "there is no agent" in mngr("connect", "nobody", "--start", code=1).err


def test_connect_shows_the_screen_of_an_ended_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "seq 60; echo the very last")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "DONE")
    with run_in_terminal(mngr, "connect", "foo") as terminal:
        terminal.wait_for_text("the very last")


def test_connect_command_setting_and_its_environment(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    line = "printf '%s|' $MNGR_AGENT_NAME $MNGR_AGENT_ID $MNGR_WORK_DIR $MNGR_TMUX_SOCKET"
    agent = mngr.get_agent("foo")
    output = mngr("connect", "foo", "-S", f"commands.connect.connect_command={line}").out
    assert output.split("|")[:3] == ["foo", agent["id"], agent["work_dir"]]
    assert output.split("|")[3].startswith("/tmp/mngr-")
    assert (
        mngr(
            "connect",
            "foo",
            "--connect-command",
            "exit 9",
            "-S",
            f"commands.connect.connect_command={line}",
            code=9,
        ).out
        == ""
    )


def test_a_paste_into_an_ended_agent_does_not_crash_the_tmux_server(mngr: MngrProgram) -> None:
    mngr("create", "other", *RUN)
    mngr("create", "foo", "--", "true")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "DONE")
    mngr.run_tmux("set-buffer", "-b", "x", "pasted")
    with run_in_terminal(mngr, "connect", "foo") as terminal:
        terminal.wait_for_text("detach:")
        terminal.type("\x02", "]", "\x02", "=")
        terminal.wait_for_text("(sort: time)")
        terminal.type("\r", "\x02", "d")
        assert terminal.wait_for_exit() == 0
    assert mngr.get_agent("other")["state"] == "RUNNING"
