"""Tests the launch wrapper: how the agent's command ends, and what --verbose prints."""

from __future__ import annotations

import os

from tests.conftest import MngrProgram, wait_for


def test_a_command_that_ignores_its_terminal_ends_with_it(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "while :; do sleep 0.05; done")
    pid = mngr.get_agent("foo")["pid"]
    mngr.run_tmux("kill-server")
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    agent = mngr.get_agent("foo")
    assert (agent["state"], agent["state_reason"]) == ("FAILED", "lost")
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_ctrl_c_reaches_the_command_and_its_exit_code_is_recorded(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "trap 'exit 7' INT; while :; do sleep 0.05; done")
    mngr.run_tmux("send-keys", "-t", "=foo:", "C-c")
    assert wait_for(lambda: mngr.get_agent("foo")["exit_code"]) == 7
    assert mngr.get_agent("foo")["state_reason"] == "exit 7"


def test_verbose_shows_commands_without_secrets_or_script_text(mngr: MngrProgram) -> None:
    result = mngr("create", "foo", "-v", "--env", "SECRET=hush", "--", "sleep", "1000")
    assert "git -c " in result.err and "worktree add" in result.err and "(exit 0, " in result.err
    assert "sh start.sh " in result.err
    assert "hush" not in result.err and "while :" not in result.err
    assert "git" not in mngr("list").err
