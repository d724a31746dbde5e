"""Programs in a terminal: keys, the screen, its size, its end, its recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mngr.e2e import CommandTimeout, E2eSession, expect
from tests.conftest import wait_for


def events(path: Path) -> list[list[object]]:
    return [json.loads(row) for row in path.read_text().splitlines()[1:]]


def test_a_program_that_asks(session: E2eSession) -> None:
    with session.tty('printf "your name? "; read name; echo "hello $name"; exit 3', name="asks") as terminal:
        terminal.wait_for("your name?")
        terminal.type("Ada\r")
        expect(terminal.wait_for("hello")).to_match_lines("your name? Ada\nhello Ada")
        assert terminal.wait() == 3
    shown = session.transcript.path.read_text()
    assert shown.endswith("# [asks] typed 'Ada\\r'\n  your name? Ada\n  hello Ada\n? 3\n")
    header = json.loads((session.artifacts / "asks.cast").read_text().splitlines()[0])
    assert (header["version"], header["width"], header["height"]) == (2, 80, 24)
    rows = events(session.artifacts / "asks.cast")
    assert "".join(str(text) for _, kind, text in rows if kind == "o") == "your name? Ada\r\nhello Ada\r\n"
    assert [text for _, kind, text in rows if kind == "i"] == ["Ada\r"]
    assert [at for at, _, _ in rows] == sorted(float(str(at)) for at, _, _ in rows)


def test_the_size_of_the_terminal(session: E2eSession) -> None:
    command = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    with session.tty(command, rows=10, columns=40) as terminal:
        terminal.wait_for("10 40")
        terminal.resize(12, 50)
        terminal.wait_for("12 50")
    assert ["r", "50x12"] in [event[1:] for event in events(session.artifacts / "terminal.cast")]


def test_keys_by_name_and_a_screen_that_is_drawn(session: E2eSession) -> None:
    with session.tty(r"printf '\033[2J\033[3;5Hthere'; stty raw -echo; exec od -An -tx1 -w1 -v", rows=20) as terminal:
        assert terminal.wait_for("there").split("\n")[2] == "    there"
        terminal.press("Up", "C-c", "M-x", "Enter", "é")
        terminal.wait_for(r"1b\s+5b\s+41\s+03\s+1b\s+78\s+0d\s+c3\s+a9")
        with pytest.raises(ValueError, match="there is no key 'Nope'"):
            terminal.press("Nope")


def test_what_is_not_shown(session: E2eSession) -> None:
    with session.tty("echo hello; exec sleep 1000") as terminal:
        with pytest.raises(CommandTimeout) as caught:
            terminal.wait_for("bye", timeout=0.3)
        assert "'bye': it was not shown within 0.3s. The screen:\n  | hello" in str(caught.value)
        with pytest.raises(CommandTimeout, match=r"did not end within 0\.2s"):
            terminal.wait(0.2)
    with session.tty("echo hello") as terminal, pytest.raises(CommandTimeout, match="the program has ended"):
        terminal.wait_for("bye")


def test_several_terminals_each_have_a_recording(session: E2eSession) -> None:
    first, second = session.tty("echo one; exec sleep 1000"), session.tty("echo two; exec sleep 1000")
    first.wait_for("one")
    second.wait_for("two")
    assert sorted(path.name for path in session.artifacts.glob("*.cast")) == [
        "terminal-2.cast",
        "terminal.cast",
    ]


def test_closing_ends_all_of_it(session: E2eSession) -> None:
    with session.tty("sh -c 'trap \"\" HUP; echo $$ > pid; sleep 1000'") as terminal:
        wait_for(lambda: (session.cwd / "pid").exists() and (session.cwd / "pid").read_text().strip())
        assert terminal.screen() == ""
    pid = int((session.cwd / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_secrets_are_not_recorded(session: E2eSession) -> None:
    with session.tty("printf sk-proj-abcdef0; sleep 0.1; echo 123456789; echo done") as terminal:
        terminal.wait_for("sk-")
        terminal.wait()
    shown = [row[2] for row in events(session.artifacts / "terminal.cast")]
    assert "".join(map(str, shown)) == "[redacted: an API key]\r\ndone\r\n"
