"""Tests whether agents may use the user's login: mngr asks once at a terminal and saves the answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram

LOGIN = {"claudeAiOauth": {"accessToken": "a", "refreshToken": "r", "expiresAt": 1}}


@pytest.fixture
def logged_in(mngr: MngrProgram, tmp_path: Path) -> MngrProgram:
    """mngr with a program `claude` that only sleeps, and a login for it."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n[ $# -ne 1 ] || { echo 2.1.325; exit; }\nexec sleep 1000\n")
    program.chmod(0o755)
    user = tmp_path / "mine"
    user.mkdir()
    (user / ".credentials.json").write_text(json.dumps(LOGIN))
    mngr.env.update(CLAUDE_CONFIG_DIR=str(user), MNGR__AGENTS__CLAUDE__PROGRAM=str(program))
    return mngr


def create_at_terminal(mngr: MngrProgram, *words: str) -> PtyTerminal:
    """Run `mngr create` in a terminal."""
    argv = [str(BIN_DIR / "mngr"), "create", *words, "--no-connect"]
    return PtyTerminal(argv, mngr.repo, {**mngr.env, "TERM": "xterm-256color"})


def get_login_path(mngr: MngrProgram, name: str) -> Path:
    return mngr.home / "agents" / str(mngr.get_agent(name)["id"]) / "claude" / ".credentials.json"


@pytest.mark.parametrize(("answer", "remembered"), [("\r", "shared"), ("yes\r", "shared"), ("n\r", "none")])
def test_the_user_is_asked_about_the_login_once(logged_in: MngrProgram, answer: str, remembered: str) -> None:
    with create_at_terminal(logged_in, "foo", "claude") as terminal:
        terminal.wait_for_text("May agents use this login? [Y/n]")
        terminal.type(answer)
        assert terminal.wait_for_exit() == 0
    assert logged_in("config", "get", "agents.claude.login").out.strip() == remembered
    with create_at_terminal(logged_in, "bar", "claude") as terminal:
        assert terminal.wait_for_exit() == 0
        assert "May agents" not in terminal.shown
    for name in ("foo", "bar"):
        login = get_login_path(logged_in, name)
        assert login.is_symlink() == (remembered == "shared") == login.exists()


def test_without_a_terminal_the_user_is_not_asked(logged_in: MngrProgram) -> None:
    logged_in("create", "foo", "claude")
    login = get_login_path(logged_in, "foo")
    assert json.loads(login.read_text()) == LOGIN and login.is_symlink()
    assert "is not set" in logged_in("config", "get", "agents.claude.login", code=1).err


def test_a_user_without_a_login_is_not_asked(logged_in: MngrProgram) -> None:
    Path(logged_in.env["CLAUDE_CONFIG_DIR"], ".credentials.json").unlink()
    with create_at_terminal(logged_in, "foo", "claude") as terminal:
        assert terminal.wait_for_exit() == 0
        assert "May agents" not in terminal.shown
    assert logged_in.get_agent("foo")["kind"] == "claude"


def test_an_invalid_login_setting_lists_the_valid_values(logged_in: MngrProgram) -> None:
    result = logged_in("create", "foo", "claude", env={"MNGR__AGENTS__CLAUDE__LOGIN": "mine"}, code=2)
    assert "agents.claude.login cannot be 'mine'" in result.err and "shared, none" in result.err
