"""Tests of tables and colours on terminals of several widths."""

from __future__ import annotations

import json

import pyte
import pytest

from mngr.cli.framework.render import format_table
from mngr.cli.framework.terminal_text import count_columns, fit_line
from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram

LIST = ("list", "--fields", "labels.team,state,name")


def show_in_terminal(mngr: MngrProgram, *words: str, columns: int, **variables: str) -> pyte.Screen:
    """Run mngr in a terminal of this width, and return the screen of that terminal; an unknown width is 0."""
    screen = pyte.Screen(columns or 80, 24)
    stream = pyte.ByteStream(screen)
    env = {**mngr.env, "TERM": "xterm-256color", **variables}
    with PtyTerminal([str(BIN_DIR / "mngr"), *words], mngr.repo, env, rows=24, columns=columns) as terminal:
        while data := terminal.read_raw():
            stream.feed(data)
        assert terminal.process.wait(20) == 0
    return screen


def list_lines(screen: pyte.Screen) -> list[str]:
    """Return the lines of a screen without the empty ones at its end."""
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n").split("\n")


def find_colours(screen: pyte.Screen, line: int) -> dict[str, str]:
    """Return the text of each colour in one line."""
    texts: dict[str, str] = {}
    for column in range(screen.columns):
        char = screen.buffer[line][column]
        texts[char.fg] = texts.get(char.fg, "") + char.data
    return texts


@pytest.fixture
def two_agents(mngr: MngrProgram) -> MngrProgram:
    """One agent that waits for a person and whose label has wide characters, and one that runs."""
    mngr("create", "foo", "player", "--label", "team=日本 team")
    mngr("create", "bar", "--label", "team=RUNNING club", "--", "sleep", "1000")
    mngr("wait", "foo", "--state", "WAITING")
    return mngr


@pytest.mark.parametrize("columns", [0, 40, 120])
def test_a_table_fits_and_its_columns_align_on_every_terminal(two_agents: MngrProgram, columns: int) -> None:
    screen = show_in_terminal(two_agents, *LIST, columns=columns)
    lines = list_lines(screen)
    assert len(lines) == 3
    assert all(lines)
    state_column = lines[0].index("STATE")
    states = ["".join(screen.buffer[row][column].data for column in range(state_column, 40)) for row in (1, 2)]
    assert sorted(state.split()[0] for state in states) == ["RUNNING", "WAITING"]


@pytest.mark.parametrize("columns", [0, 40, 120])
def test_the_colour_covers_the_state_with_its_reason_and_nothing_else(two_agents: MngrProgram, columns: int) -> None:
    screen = show_in_terminal(two_agents, *LIST, columns=columns)
    rows = [find_colours(screen, line) for line in (1, 2)]
    waiting = next(row for row in rows if "日" in row["default"])
    running = next(row for row in rows if "club" in row["default"])
    assert waiting["brown"] == "WAITING (end_of_turn)"
    assert running["green"] == "RUNNING"
    assert "RUNNING club" in running["default"]


def test_the_variable_columns_limits_a_table_on_a_wide_terminal(two_agents: MngrProgram) -> None:
    lines = list_lines(show_in_terminal(two_agents, "list", columns=120, COLUMNS="30"))
    assert max(count_columns(line) for line in lines) <= 30


def test_the_variable_columns_limits_a_table_in_a_pipe(two_agents: MngrProgram) -> None:
    lines = two_agents("list", env={"COLUMNS": "30"}).out.splitlines()
    assert max(map(len, lines)) == 30
    assert max(map(len, two_agents("list", env={"COLUMNS": "wide"}).out.splitlines())) > 30


def test_force_color_colours_a_pipe_and_no_color_wins(two_agents: MngrProgram) -> None:
    assert "\x1b[32mRUNNING\x1b[0m" in two_agents("list", env={"FORCE_COLOR": "1"}).out
    assert "\x1b" not in two_agents("list", env={"FORCE_COLOR": "0"}).out
    assert "\x1b" not in two_agents("list", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out
    assert find_colours(show_in_terminal(two_agents, *LIST, columns=80, NO_COLOR="1"), 1).keys() == {"default"}


def test_json_is_short_for_format_json(two_agents: MngrProgram) -> None:
    assert json.loads(two_agents("list", "--json").out) == two_agents.run_json("list")
    error = json.loads(two_agents("stop", "nobody", "--json", code=1).err)
    assert error["error"]["code"] == 1


@pytest.mark.parametrize(
    ("text", "columns"),
    [("plain", 5), ("日本", 4), ("e\u0301", 1), ("a\u200db", 2), ("☺\ufe0f", 2), ("", 0)],
)
def test_columns_count_as_a_terminal_shows_them(text: str, columns: int) -> None:
    assert count_columns(text) == columns
    assert fit_line(text, columns) == text
    assert count_columns(fit_line(text, max(0, columns - 1))) <= max(0, columns - 1)


def test_a_cell_with_a_line_end_stays_on_its_line() -> None:
    assert format_table(["A", "B"], [["a\nb", "c"], ["d\te", ""]]) == "A    B\na b  c\nd e\n"
