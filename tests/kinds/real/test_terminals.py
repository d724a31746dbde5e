"""People at an agent's screen: several terminals of several sizes, a tmux inside a tmux, a window beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.testkit.contract.terminal import PtyTerminal
from mngr.testkit.modelserver import ModelServer
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, wait_for
from tests.kinds.real.kit import PLACE, fake
from tests.support.hosts.sshd import Farm

KIND = "claude"
ASKS = fake([{"text": "may I", "sh": "echo hi > out.txt"}, {"text": "thank you"}], "ask me")


@pytest.fixture
def foo(coder: MngrProgram, model: ModelServer) -> MngrProgram:
    """An agent `foo` at the end of its first turn, with a shell beside it."""
    return begun(coder, model, "foo", "-w", "shell=sh")


def begun(mngr: MngrProgram, model: ModelServer, address: str, *words: str) -> MngrProgram:
    mngr.env.update(ANTHROPIC_BASE_URL=model.url("terminals"), ANTHROPIC_AUTH_TOKEN="hush")
    first = fake([{"text": "first answer"}], "first question")
    mngr("create", address, "claude", "--no-connect", *words, "-m", first)
    mngr("wait", "foo", "--timeout", "60")
    return mngr


@pytest.fixture
def outer(foo: MngrProgram, tmp_path: Path) -> Iterator[list[str]]:
    """A tmux of the user's own, by the words that call it."""
    argv = ["tmux", "-u", "-f", "/dev/null", "-S", str(tmp_path / "outer")]
    yield argv
    subprocess.run([*argv, "kill-server"], capture_output=True, check=False)


def at_terminal(mngr: MngrProgram, *words: str, **size: int) -> PtyTerminal:
    return PtyTerminal([str(BIN_DIR / "mngr"), *words], mngr.repo, mngr.env, **size)


def screen(mngr: MngrProgram) -> list[str]:
    return [line.rstrip(" \u00a0") for line in mngr("capture", "foo").out.splitlines()]


def is_whole(lines: list[str], columns: int) -> bool:
    """Whether the input box is there once, empty, between two lines as wide as the screen."""
    places = [number for number, line in enumerate(lines) if line.startswith("───")]
    return (
        len(places) == 2
        and lines[places[0] : places[1] + 1] == ["─" * columns, "❯", "─" * columns]
        and lines.count("❯") == 1
    )


def talk(mngr: MngrProgram) -> list[str]:
    """What was said, as the screen has it."""
    return [line for line in screen(mngr) if line.startswith(("❯ ", "● "))]


def said(mngr: MngrProgram) -> list[str]:
    rows = mngr.run_json("transcript", "foo")["transcript"]
    return [row["text"].rstrip() for row in rows if row["role"] == "user"]


def state(mngr: MngrProgram) -> tuple[str, str]:
    agent = mngr.get_agent("foo")
    return agent["state"], agent["state_reason"]


def send(mngr: MngrProgram, *words: str) -> None:
    assert "proof: hook" in mngr("message", "foo", *words, "--timeout", "20").out


def test_two_terminals_of_two_sizes(foo: MngrProgram) -> None:
    look_on(foo)


if IS_FULL_SCALE:

    def test_two_terminals_far_away(coder: MngrProgram, model: ModelServer, farm: Farm) -> None:
        coder.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
        coder.env["MNGR__AGENTS__CLAUDE__PROGRAM"] = str((PLACE / "claude/node_modules/.bin/claude").resolve())
        look_on(begun(coder, model, "foo@h1"))

    def test_two_terminals_behind_walls(coder: MngrProgram, model: ModelServer) -> None:
        look_on(begun(coder, model, "foo", "--sandbox"))


def look_on(foo: MngrProgram) -> None:
    """Two at one screen, one of them leaves, and what is said meanwhile arrives."""
    before = talk(foo)
    assert before[-1] == "● first answer" and is_whole(screen(foo), 200)
    with at_terminal(foo, "connect", "foo", rows=40, columns=120) as large:
        wait_for(lambda: is_whole(screen(foo), 120))
        with at_terminal(foo, "connect", "foo", rows=24, columns=80) as small:
            wait_for(lambda: is_whole(screen(foo), 80))
            assert talk(foo) == before
            small.resize(20, 60)
            wait_for(lambda: is_whole(screen(foo), 60))
            send(foo, "-m", "two\nlook on")
            small.wait_for_text("look on")
            large.wait_for_text("look on")
            foo("wait", "foo", "--timeout", "60")
            assert state(foo) == ("WAITING", "end_of_turn")
            send(foo, "-m", ASKS)
            foo("wait", "foo", "--timeout", "60")
            assert state(foo) == ("WAITING", "permission")
            small.type("\x02", "d")
            assert small.wait_for_exit() == 0
        foo("message", "foo", "--allow", "--wait", "--timeout", "60")
        large.resize(39, 110)
        wait_for(lambda: is_whole(screen(foo), 110))
    assert foo("exec", "foo", "--", "cat", "out.txt").out == "hi\n"
    assert state(foo) == ("WAITING", "end_of_turn")
    assert is_whole(screen(foo), 110)  # nobody is there any more
    assert talk(foo)[: len(before)] == before and talk(foo)[-1] == "● thank you"
    assert said(foo)[1:] == ["two\nlook on", ASKS]


def test_who_scrolls_back_is_no_obstacle(foo: MngrProgram) -> None:
    with at_terminal(foo, "connect", "foo", rows=30, columns=100) as terminal:
        wait_for(lambda: is_whole(screen(foo), 100))
        for keys, text in (("[", "one\n\ntwo\nthree"), ("w", "four\nfive"), ("[", ASKS)):
            read(foo, terminal, keys)
            send(foo, "-m", text)
            foo("wait", "foo", "--timeout", "60")
        read(foo, terminal, "[")
        foo("message", "foo", "--allow", "--wait", "--timeout", "60")
    assert (foo.get_work_dir("foo") / "out.txt").read_text() == "hi\n"
    assert said(foo)[1:] == ["one\n\ntwo\nthree", "four\nfive", ASKS]


def read(mngr: MngrProgram, terminal: PtyTerminal, key: str) -> None:
    """Have tmux itself take the keys: it scrolls back, or shows a list."""
    terminal.type("\x02", key)
    wait_for(lambda: mngr.run_tmux("display-message", "-p", "-t", "=foo:agent", "#{pane_in_mode}") == "1\n")


def test_a_tmux_in_a_tmux_and_a_window_beside(foo: MngrProgram, outer: list[str]) -> None:
    beside = f"{BIN_DIR}/mngr --home {foo.home} connect foo"

    def shown() -> list[str]:
        argv = [*outer, "capture-pane", "-p"]
        lines = subprocess.run(argv, env=foo.env, capture_output=True, text=True, check=False).stdout
        return [line.rstrip(" \u00a0") for line in lines.splitlines()]

    def sees(text: str) -> bool:
        return any(text in line for line in shown())

    with PtyTerminal([*outer, "new-session", "sh"], foo.repo, foo.env, rows=31, columns=90) as terminal:
        terminal.type(f"{BIN_DIR}/mngr connect foo\r")
        wait_for(lambda: is_whole(shown(), 90))
        # Its picture blinks, so both are looked at until they are of one moment.
        wait_for(lambda: shown()[: len(inside := screen(foo))] == inside and is_whole(inside, 90))
        terminal.type("\x02", "\x02", "n")
        wait_for(lambda: foo.run_tmux("display-message", "-p", "-t", "=foo:", "#{window_name}") == "shell\n")
        send(foo, "-m", "not for the shell")
        foo("wait", "foo", "--timeout", "60")
        assert is_whole(screen(foo), 90) and state(foo) == ("WAITING", "end_of_turn")
        assert not sees("not for the shell")
        terminal.type(beside + "\r")
        wait_for(lambda: sees("cannot show itself"))
        terminal.type("\x02", "\x02", "c")  # a window that mngr knows nothing of
        wait_for(lambda: foo.run_tmux("list-windows", "-t", "=foo:", "-F", "x").count("x") == 3)
        terminal.type(beside + "; echo switch'ed'\r")
        wait_for(lambda: sees("switched"))
        assert foo.run_tmux("list-clients", "-F", "#{session_name}") == "foo\n"
        terminal.type("\x02", "\x02", "d")
        wait_for(lambda: sees("detached"))
    assert is_whole(screen(foo), 90) and said(foo)[1:] == ["not for the shell"]
