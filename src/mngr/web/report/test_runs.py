"""The test runs of a task: mngr's run of the claim, the baseline, and the agent's own runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from mngr.base.errors import NotFound
from mngr.base.model import Struct
from mngr.mapreduce.run_dir import make_slug
from mngr.web import artifacts, player_or_last_screen
from mngr.web.e2e_run_pages import Terminal, TranscriptLine, build_terminal, split_transcript
from mngr.web.report.limited_reading import read_limited
from mngr.web.report.report_data import ReportFacts, ReportTask

MAX_TRANSCRIPT_CHARACTERS = 100_000
_MAX_RECORDING_BYTES = 6_000_000  # Of all recordings on a page.
_MAX_TESTS = 20  # Of one kind: run by mngr or by the agent.


class ShownRun(Struct):
    """One run of a test with its transcript and its recordings."""

    title: str
    name: str  # Of the test, or of the agent's run.
    status: str  # Empty for a run of the agent.
    lines: list[TranscriptLine]
    hidden_characters: int  # Of the transcript.
    terminals: list[Terminal]
    steps: Sequence[artifacts.TestStep]
    too_large: list[str]  # The names of recordings that the page leaves out.
    is_open: bool


class TestRuns(Struct):
    """All runs on the page of a task."""

    __test__ = False  # pytest must not collect this class.

    runs: list[ShownRun]

    @property
    def plays(self) -> bool:
        """True when the page needs the player."""
        return any(run.terminals for run in self.runs) and player_or_last_screen.has_player()


def read_test_runs(facts: ReportFacts, task: ReportTask) -> TestRuns:
    """Return the test runs of a task."""
    run = facts.run
    baseline_dir = os.path.join(run.path, "baseline", make_slug(task.test))
    reader = _RunReader()
    return TestRuns(
        runs=[
            *reader.read_tests("With the claimed change, run by mngr", run.task_path(task.slug), "receipt", True),
            *reader.read_tests("Before any change, run by mngr", baseline_dir, "1", False),
            *_read_agent_runs(run.task_path(task.slug, "outputs", "runs")),
        ]
    )


class _RunReader:
    """Reads runs that mngr did, until the recordings are too large for a page."""

    def __init__(self) -> None:
        self._bytes_left, self._number = _MAX_RECORDING_BYTES, 0

    def read_tests(self, title: str, parent: str, name: str, is_open: bool) -> Iterator[ShownRun]:
        directory = os.path.join(parent, name)
        if os.path.islink(directory) or not os.path.isdir(directory):
            return
        for slug in sorted(os.listdir(directory))[:_MAX_TESTS]:
            try:
                test = artifacts.load_test(parent, name, slug)
            except NotFound:
                continue
            yield self._read_test(title, parent, name, test, is_open)

    def _read_test(self, title: str, parent: str, name: str, test: artifacts.E2eTest, is_open: bool) -> ShownRun:
        steps = artifacts.read_steps(parent, name, test.slug)
        terminals, too_large = [], []
        for recording in artifacts.read_recordings(parent, name, test):
            self._bytes_left -= len(recording.text)
            if self._bytes_left < 0:
                too_large.append(recording.name)
                continue
            self._number += 1
            terminals.append(build_terminal(f"cast-{self._number}", recording, steps))
        run = _build_run(title, test.name, artifacts.read_transcript(parent, name, test.slug), steps)
        return run.replace(status=test.status, terminals=terminals, too_large=too_large, is_open=is_open)


def _build_run(title: str, name: str, transcript: str, steps: Sequence[artifacts.TestStep] = ()) -> ShownRun:
    return ShownRun(
        title=title,
        name=name,
        status="",
        lines=split_transcript(transcript[:MAX_TRANSCRIPT_CHARACTERS], steps) if transcript else [],
        hidden_characters=max(0, len(transcript) - MAX_TRANSCRIPT_CHARACTERS),
        terminals=[],
        steps=steps,
        too_large=[],
        is_open=False,
    )


def _read_agent_runs(runs_dir: str) -> Iterator[ShownRun]:
    """Yield each run whose transcript the agent left; the files may be anything."""
    if os.path.islink(runs_dir) or not os.path.isdir(runs_dir):
        return
    for name in sorted(os.listdir(runs_dir))[:_MAX_TESTS]:
        text = read_limited(os.path.join(runs_dir, name, "transcript.txt"), MAX_TRANSCRIPT_CHARACTERS)
        if text and not os.path.islink(os.path.join(runs_dir, name)):
            yield _build_run("The agent's own run", name, text)
