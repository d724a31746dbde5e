"""People at an agent's screen: terminals of several sizes, a nested tmux, and a second window."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from mngr.testkit.modelserver import ModelServer
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, wait_for
from tests.kinds.real.kit import PLACE, fake
from tests.support.hosts.sshd import Farm

KIND = "claude"
ASKS = fake([{"text": "may I", "sh": "echo hi > out.txt"}, {"text": "thank you"}], "ask me")


@pytest.fixture
def foo(coder: MngrProgram, model: ModelServer) -> MngrProgram:
    """The mngr program with an agent `foo` at the end of its first turn, and with a shell window."""
    return create_agent(coder, model, "foo", "-w", "shell=sh")


def create_agent(mngr: MngrProgram, model: ModelServer, address: str, *options: str) -> MngrProgram:
    mngr.env.update(ANTHROPIC_BASE_URL=model.url("terminals"), ANTHROPIC_AUTH_TOKEN="hush")
    first = fake([{"text": "first answer"}], "first question")
    mngr("create", address, "claude", "--no-connect", *options, "-m", first)
    mngr("wait", "foo", "--timeout", "60")
    return mngr


@pytest.fixture
def outer(foo: MngrProgram, tmp_path: Path) -> Iterator[list[str]]:
    """Yield the command of the user's own tmux server."""
    argv = ["tmux", "-u", "-f", "/dev/null", "-S", str(tmp_path / "outer")]
    yield argv
    subprocess.run([*argv, "kill-server"], capture_output=True, check=False)


def at_terminal(mngr: MngrProgram, *arguments: str, **size: int) -> PtyTerminal:
    return PtyTerminal([str(BIN_DIR / "mngr"), *arguments], mngr.repo, mngr.env, **size)


def read_screen(mngr: MngrProgram) -> list[str]:
    return [line.rstrip(" \u00a0") for line in mngr("capture", "foo").out.splitlines()]


def is_whole(lines: list[str], columns: int) -> bool:
    """True when the screen has exactly one empty input box between two lines as wide as the screen."""
    borders = [number for number, line in enumerate(lines) if line.startswith("───")]
    return (
        len(borders) == 2
        and lines[borders[0] : borders[1] + 1] == ["─" * columns, "❯", "─" * columns]
        and lines.count("❯") == 1
    )


def read_conversation(mngr: MngrProgram) -> list[str]:
    """Return the conversation that the screen shows."""
    return [line for line in read_screen(mngr) if line.startswith(("❯ ", "● "))]


def list_user_messages(mngr: MngrProgram) -> list[str]:
    rows = mngr.run_json("transcript", "foo")["transcript"]
    return [row["text"].rstrip() for row in rows if row["role"] == "user"]


def get_state(mngr: MngrProgram) -> tuple[str, str]:
    agent = mngr.get_agent("foo")
    return agent["state"], agent["state_reason"]


def send(mngr: MngrProgram, *arguments: str) -> None:
    assert "proof: hook" in mngr("message", "foo", *arguments, "--timeout", "20").out


def test_two_terminals_of_different_sizes_share_a_screen(foo: MngrProgram) -> None:
    check_two_terminals(foo)


if IS_FULL_SCALE:

    def test_two_terminals_share_a_screen_over_ssh(coder: MngrProgram, model: ModelServer, farm: Farm) -> None:
        coder.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
        coder.env["MNGR__AGENTS__CLAUDE__PROGRAM"] = str((PLACE / "claude/node_modules/.bin/claude").resolve())
        check_two_terminals(create_agent(coder, model, "foo@h1"))

    def test_two_terminals_share_the_screen_of_a_sandboxed_agent(coder: MngrProgram, model: ModelServer) -> None:
        check_two_terminals(create_agent(coder, model, "foo", "--sandbox"))


def check_two_terminals(foo: MngrProgram) -> None:
    """Check two terminals on one screen: one leaves, and messages sent meanwhile arrive."""
    before = read_conversation(foo)
    assert before[-1] == "● first answer" and is_whole(read_screen(foo), 200)
    with at_terminal(foo, "connect", "foo", rows=40, columns=120) as large:
        wait_for(lambda: is_whole(read_screen(foo), 120))
        with at_terminal(foo, "connect", "foo", rows=24, columns=80) as small:
            wait_for(lambda: is_whole(read_screen(foo), 80))
            assert read_conversation(foo) == before
            small.resize(20, 60)
            wait_for(lambda: is_whole(read_screen(foo), 60))
            send(foo, "-m", "two\nlook on")
            small.wait_for_text("look on")
            large.wait_for_text("look on")
            foo("wait", "foo", "--timeout", "60")
            assert get_state(foo) == ("WAITING", "end_of_turn")
            send(foo, "-m", ASKS)
            foo("wait", "foo", "--timeout", "60")
            assert get_state(foo) == ("WAITING", "permission")
            small.type("\x02", "d")
            assert small.wait_for_exit() == 0
        foo("message", "foo", "--allow", "--wait", "--timeout", "60")
        large.resize(39, 110)
        wait_for(lambda: is_whole(read_screen(foo), 110))
    assert foo("exec", "foo", "--", "cat", "out.txt").out == "hi\n"
    assert get_state(foo) == ("WAITING", "end_of_turn")
    assert is_whole(read_screen(foo), 110)  # no terminal is connected any more
    assert read_conversation(foo)[: len(before)] == before and read_conversation(foo)[-1] == "● thank you"
    assert list_user_messages(foo)[1:] == ["two\nlook on", ASKS]


def test_messages_arrive_while_a_person_scrolls_back(foo: MngrProgram) -> None:
    with at_terminal(foo, "connect", "foo", rows=30, columns=100) as terminal:
        wait_for(lambda: is_whole(read_screen(foo), 100))
        for keys, text in (("[", "one\n\ntwo\nthree"), ("w", "four\nfive"), ("[", ASKS)):
            enter_tmux_mode(foo, terminal, keys)
            send(foo, "-m", text)
            foo("wait", "foo", "--timeout", "60")
        enter_tmux_mode(foo, terminal, "[")
        foo("message", "foo", "--allow", "--wait", "--timeout", "60")
    assert (foo.get_work_dir("foo") / "out.txt").read_text() == "hi\n"
    assert list_user_messages(foo)[1:] == ["one\n\ntwo\nthree", "four\nfive", ASKS]


def enter_tmux_mode(mngr: MngrProgram, terminal: PtyTerminal, key: str) -> None:
    """Put the pane into a mode of tmux, in which tmux itself takes the keys."""
    terminal.type("\x02", key)
    wait_for(lambda: mngr.run_tmux("display-message", "-p", "-t", "=foo:agent", "#{pane_in_mode}") == "1\n")


def test_connect_works_inside_another_tmux_and_beside_other_windows(foo: MngrProgram, outer: list[str]) -> None:
    connect_command = f"{BIN_DIR}/mngr --home {foo.home} connect foo"

    def read_outer_screen() -> list[str]:
        argv = [*outer, "capture-pane", "-p"]
        lines = subprocess.run(argv, env=foo.env, capture_output=True, text=True, check=False).stdout
        return [line.rstrip(" \u00a0") for line in lines.splitlines()]

    def is_shown(text: str) -> bool:
        return any(text in line for line in read_outer_screen())

    with PtyTerminal([*outer, "new-session", "sh"], foo.repo, foo.env, rows=31, columns=90) as terminal:
        terminal.type(f"{BIN_DIR}/mngr connect foo\r")
        wait_for(lambda: is_whole(read_outer_screen(), 90))
        # The screen blinks, so repeat until both captures show the same moment.
        wait_for(
            lambda: (
                read_outer_screen()[: len(agent_screen := read_screen(foo))] == agent_screen
                and is_whole(agent_screen, 90)
            )
        )
        terminal.type("\x02", "\x02", "n")
        wait_for(lambda: foo.run_tmux("display-message", "-p", "-t", "=foo:", "#{window_name}") == "shell\n")
        send(foo, "-m", "not for the shell")
        foo("wait", "foo", "--timeout", "60")
        assert is_whole(read_screen(foo), 90) and get_state(foo) == ("WAITING", "end_of_turn")
        assert not is_shown("not for the shell")
        terminal.type(connect_command + "\r")
        wait_for(lambda: is_shown("is already a window of"))
        terminal.type("\x02", "\x02", "c")  # a window that mngr did not create
        wait_for(lambda: foo.run_tmux("list-windows", "-t", "=foo:", "-F", "x").count("x") == 3)
        terminal.type(connect_command + "; echo switch'ed'\r")
        wait_for(lambda: is_shown("switched"))
        assert foo.run_tmux("list-clients", "-F", "#{session_name}") == "foo\n"
        terminal.type("\x02", "\x02", "d")
        wait_for(lambda: is_shown("detached"))
    assert is_whole(read_screen(foo), 90) and list_user_messages(foo)[1:] == ["not for the shell"]
