"""Renders the pages of e2e test runs. Pages load nothing from other sites."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from mngr.base.model import Struct
from mngr.web import player_or_last_screen
from mngr.web.artifacts import E2eRun, E2eTest, Recording, TestStep
from mngr.web.templates import render_template

_LINE_KINDS = {"$ ": "command", "# ": "comment", "! ": "error", "? ": "code"}


class TranscriptLine(NamedTuple):
    """A line of a transcript with its mark."""

    kind: str  # The class of its element.
    text: str
    step: int | None = None  # The number of the step that it belongs to.


class Terminal(Struct):
    """A terminal of a test as a page shows it."""

    key: str  # The id of the recording on the page.
    name: str
    recording: str
    is_cut: bool
    begin: float | None  # Seconds from the beginning of the test to the beginning of the recording, if known.
    last_screen: str | None  # None if the page plays the recording.


def render_index(runs: list[E2eRun], hidden_count: int = 0, *, tutorial: str | None = None) -> str:
    """Return the page with all runs, and a link to the tutorial if there is one."""
    return render_template(
        "e2e/index.html", up="", plays=False, runs=runs, hidden_count=hidden_count, tutorial=tutorial
    )


def render_run(run: E2eRun) -> str:
    """Return the page of one run with its tests, failed ones first."""
    return render_template("e2e/run.html", up="../", plays=False, run=run)


def render_test(
    run: str, test: E2eTest, transcript: str, recordings: list[Recording], steps: Sequence[TestStep] = ()
) -> str:
    """Return the page of one test: its description, its transcript and its terminals, side by side."""
    terminals = [build_terminal(f"cast-{number}", recording, steps) for number, recording in enumerate(recordings)]
    plays = bool(terminals) and player_or_last_screen.has_player()
    lines = split_transcript(transcript, steps)
    return render_template(
        "e2e/test.html", up="../../", plays=plays, run=run, test=test, lines=lines, terminals=terminals, steps=steps
    )


def split_transcript(text: str, steps: Sequence[TestStep] = ()) -> list[TranscriptLine]:
    """Return the lines of a transcript, each with its kind and its step."""
    begins = [step.line for step in steps]
    return [
        TranscriptLine(
            _find_line_kind(line), line, step=bisect_right(begins, index) - 1 if begins and index >= begins[0] else None
        )
        for index, line in enumerate(text.removesuffix("\n").split("\n"))
    ]


def _find_line_kind(line: str) -> str:
    kind = _LINE_KINDS.get(line[:2], "output")
    return "code bad" if kind == "code" and line != "? 0" else kind


def build_terminal(key: str, recording: Recording, steps: Sequence[TestStep] = ()) -> Terminal:
    """Return a terminal with its recording, and with its last screen if the player is not installed."""
    has_player = player_or_last_screen.has_player()
    return Terminal(
        key=key,
        name=recording.name,
        recording=recording.text,
        is_cut=recording.is_cut,
        begin=next((step.at for step in steps if step.terminal == recording.name), None),
        last_screen=None if has_player else player_or_last_screen.render_last_screen(recording.text),
    )
