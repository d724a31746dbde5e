"""Tests `mngr board` in a real terminal, as a person starts it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pyte
import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram

COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


class BoardTerminal:
    """The board in a pty, with the screen that a terminal would show."""

    def __init__(self, mngr: MngrProgram, *words: str, rows: int = 24, columns: int = 80, **env: str) -> None:
        argv = [str(BIN_DIR / "mngr"), "board", *words]
        self._terminal = PtyTerminal(
            argv, mngr.repo, {**mngr.env, "TERM": "xterm-256color", **env}, rows=rows, columns=columns
        )
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.output = b""

    def __enter__(self) -> BoardTerminal:
        return self

    def __exit__(self, *error: object) -> None:
        self._terminal.__exit__(*error)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def type(self, *keys: str) -> None:
        self._terminal.type(*keys)

    def wait_for(self, text: str, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            data = self._terminal.read_raw(0.2)
            self.output += data
            self._stream.feed(data.replace(b"\x1b[>", b"\x1b["))  # pyte prints private sequences that it does not know

    def wait_for_quiet(self) -> None:
        """Wait until the board has drawn nothing for a while, and forget what it drew."""
        while data := self._terminal.read_raw(1.5):
            self._stream.feed(data.replace(b"\x1b[>", b"\x1b["))
        self.output = b""

    def wait_for_exit(self) -> int:
        return self._terminal.wait_for_exit()


def test_the_board_runs_at_80_by_24_and_ends_with_q(mngr: MngrProgram) -> None:
    mngr("create", "ask", "player", "-m", "go", "--", '[{"ask": "red or blue?"}]')
    with BoardTerminal(mngr) as board:
        board.wait_for("red or blue?")
        board.type("q")
        assert board.wait_for_exit() == 0


def test_a_person_attaches_and_comes_back_to_the_board(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "echo hello from foo; exec cat")
    with BoardTerminal(mngr, rows=30, columns=120) as board:
        board.wait_for("1 working")
        board.wait_for("hello from foo")
        board.type("\r")
        board.wait_for("detach: C-b d")
        board.type("\x02", "d")
        board.wait_for("back from foo")
        board.wait_for("1 working")
        board.type("q")
        assert board.wait_for_exit() == 0
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_the_board_uses_no_colour_with_no_color(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "printf '\\033[31mred\\n'; exec cat")
    with BoardTerminal(mngr, NO_COLOR="1") as board:
        board.wait_for("1 working")
        board.wait_for("red")
        assert COLOUR.search(board.output) is None
    with BoardTerminal(mngr) as board:
        board.wait_for("1 working")
        assert COLOUR.search(board.output) is not None


@pytest.mark.web
def test_a_key_paints_only_the_lines_that_change(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--count", "10", "--transfer", "none", "--", "sleep", "1000")
    with BoardTerminal(mngr, rows=30, columns=120) as board:
        board.wait_for("10 working")
        board.wait_for_quiet()
        names = re.findall(r"^  (foo-\d+) ", board.text, re.MULTILINE)
        assert len(names) == 10
        board.type("j")
        board.wait_for(f"{names[1]}  command")  # the title of the tabs
        assert b"\x1b[2J" not in board.output
        assert set(re.findall(r"foo-\d+", board.output.decode(errors="replace"))) <= set(names[:2])


def test_a_terminal_that_is_too_small_is_told_so(mngr: MngrProgram) -> None:
    with BoardTerminal(mngr, rows=8, columns=30) as board:
        board.wait_for("40 and 12.")
        board.type("q")
        assert board.wait_for_exit() == 0


def test_without_a_terminal_the_board_names_another_command(mngr: MngrProgram) -> None:
    result = mngr("board", code=1)
    assert result.err == "Error: mngr board needs a terminal\nHint: list the agents: mngr list\n"


def test_without_the_extra_one_line_says_how_to_install_it(mngr: MngrProgram, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "textual.py").write_text("raise ImportError\n")
    with BoardTerminal(mngr, PYTHONPATH=str(blocked)) as board:
        board.wait_for("pipx inject mngr textual")
        assert board.wait_for_exit() == 1


def test_a_filter_that_is_not_valid_is_an_error_before_the_board_opens(mngr: MngrProgram) -> None:
    with BoardTerminal(mngr, "--filter", "colour == red") as board:
        board.wait_for("Hint:")
        assert board.wait_for_exit() == 2
