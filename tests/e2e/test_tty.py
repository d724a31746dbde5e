"""Programs in a terminal: keys, screen, size, end and recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mngr.e2e import CommandTimeout, E2eSession, expect
from tests.conftest import wait_for


def read_events(path: Path) -> list[list[object]]:
    return [json.loads(row) for row in path.read_text().splitlines()[1:]]


def test_a_program_can_ask_and_read_an_answer(session: E2eSession) -> None:
    with session.tty('printf "your name? "; read name; echo "hello $name"; exit 3', name="asks") as terminal:
        terminal.wait_for("your name?")
        terminal.type("Ada\r")
        expect(terminal.wait_for("hello")).to_match_lines("your name? Ada\nhello Ada")
        assert terminal.wait() == 3
    transcript = session.transcript.path.read_text()
    assert transcript.endswith("# [asks] typed 'Ada\\r'\n  your name? Ada\n  hello Ada\n? 3\n")
    header = json.loads((session.artifacts / "asks.cast").read_text().splitlines()[0])
    assert (header["version"], header["width"], header["height"]) == (2, 80, 24)
    rows = read_events(session.artifacts / "asks.cast")
    assert "".join(str(text) for _, kind, text in rows if kind == "o") == "your name? Ada\r\nhello Ada\r\n"
    assert [text for _, kind, text in rows if kind == "i"] == ["Ada\r"]
    assert [seconds for seconds, _, _ in rows] == sorted(float(str(seconds)) for seconds, _, _ in rows)


def test_the_terminal_has_a_size_and_can_be_resized(session: E2eSession) -> None:
    command = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    with session.tty(command, rows=10, columns=40) as terminal:
        terminal.wait_for("10 40")
        terminal.resize(12, 50)
        terminal.wait_for("12 50")
    assert ["r", "50x12"] in [event[1:] for event in read_events(session.artifacts / "terminal.cast")]


def test_keys_are_pressed_by_name_and_the_screen_is_drawn(session: E2eSession) -> None:
    with session.tty(r"printf '\033[2J\033[3;5Hthere'; stty raw -echo; exec od -An -tx1 -w1 -v", rows=20) as terminal:
        assert terminal.wait_for("there").split("\n")[2] == "    there"
        terminal.press("Up", "C-c", "M-x", "Enter", "é")
        terminal.wait_for(r"1b\s+5b\s+41\s+03\s+1b\s+78\s+0d\s+c3\s+a9")
        with pytest.raises(ValueError, match="unknown key 'Nope'"):
            terminal.press("Nope")


def test_waiting_for_missing_text_times_out_with_the_screen(session: E2eSession) -> None:
    with session.tty("echo hello; exec sleep 1000") as terminal:
        with pytest.raises(CommandTimeout) as caught:
            terminal.wait_for("bye", timeout=0.3)
        assert "The screen did not show 'bye' within 0.3s. The screen:\n  | hello" in str(caught.value)
        with pytest.raises(CommandTimeout, match=r"did not finish within 0\.2s"):
            terminal.wait(0.2)
    with session.tty("echo hello") as terminal, pytest.raises(CommandTimeout, match="before the program ended"):
        terminal.wait_for("bye")


def test_each_terminal_has_its_own_recording(session: E2eSession) -> None:
    first, second = session.tty("echo one; exec sleep 1000"), session.tty("echo two; exec sleep 1000")
    first.wait_for("one")
    second.wait_for("two")
    assert sorted(path.name for path in session.artifacts.glob("*.cast")) == [
        "terminal-2.cast",
        "terminal.cast",
    ]


def test_closing_a_terminal_ends_all_its_processes(session: E2eSession) -> None:
    with session.tty("sh -c 'trap \"\" HUP; echo $$ > pid; sleep 1000'") as terminal:
        wait_for(lambda: (session.cwd / "pid").exists() and (session.cwd / "pid").read_text().strip())
        assert terminal.screen() == ""
    pid = int((session.cwd / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_secrets_are_not_recorded(session: E2eSession) -> None:
    with session.tty("printf sk-proj-abcdef0; sleep 0.1; echo 123456789; echo done") as terminal:
        terminal.wait_for("sk-")
        terminal.wait()
    texts = [row[2] for row in read_events(session.artifacts / "terminal.cast")]
    assert "".join(map(str, texts)) == "[redacted: an API key]\r\ndone\r\n"
