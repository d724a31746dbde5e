"""Follows the journals of a project's latest runs. Only the rows that were added are read again."""

from __future__ import annotations

import time

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.untrusted_json import parse_json
from mngr.mapreduce.journal.journal_file import decode_row, find_writer
from mngr.mapreduce.journal.run_rows import EndedRow
from mngr.mapreduce.journal.run_state import JournalRow
from mngr.mapreduce.map_recipe import load_map_plan
from mngr.mapreduce.run_dir import RunDir, list_runs
from mngr.overview.run_facts import RunFacts, RunTimeline
from mngr.tmr.run_plan import load_plan

_CHUNK_BYTES = 1 << 20
_MAX_SECONDS = 0.2  # for one look at a journal, so that a long one delays nothing else
_MAX_RUNS = 5


class RunTask(Struct):
    """A task of a run. `agent` is its present agent."""

    slug: str
    title: str
    state: str
    outcome: str | None = None
    reason: str | None = None
    agent: str | None = None
    host: str | None = None
    cost_usd: float | None = None


class RunCard(Struct):
    """A run with its facts and tasks. The state is running, settled, parked or interrupted."""

    name: str
    state: str
    facts: RunFacts
    tasks: tuple[RunTask, ...] = ()
    damaged_rows: int = 0
    budget_usd: float | None = None  # in the plan; `--budget` of a resumed run may differ


class JournalFollower:
    """Reads the rows of a journal as they arrive."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self.damaged_rows = 0
        self.is_ended = False  # True when the last row ends the run for now

    def read(self, max_seconds: float = _MAX_SECONDS) -> list[JournalRow]:
        """Return the complete rows that were added. Rows that take longer than `max_seconds` follow in later calls."""
        rows: list[JournalRow] = []
        deadline = time.monotonic() + max_seconds
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                while time.monotonic() < deadline:
                    chunk = file.read(_CHUNK_BYTES)
                    if b"\n" not in chunk:  # a row that is longer than a chunk, or not yet complete
                        chunk += file.readline()
                    complete, newline, _ = chunk.rpartition(b"\n")
                    if not newline:
                        break
                    self._offset += len(complete) + 1
                    file.seek(self._offset)
                    rows += self._decode(complete.split(b"\n"))
        except FileNotFoundError:
            pass
        if rows:
            self.is_ended = isinstance(rows[-1], EndedRow)
        return rows

    def _decode(self, lines: list[bytes]) -> list[JournalRow]:
        rows = []
        for line in lines:
            try:
                rows.append(decode_row(parse_json(line)))
            except ValueError:
                self.damaged_rows += 1
        return rows


class _FollowedRun:
    """A run whose journal is followed."""

    def __init__(self, root: str, name: str) -> None:
        self._run = RunDir(root, name)
        self._journal = JournalFollower(self._run.journal)
        self._history = RunTimeline()
        self.card = RunCard(name=name, state="interrupted", facts=self._history.build_facts(time.time()))

    def read(self) -> None:
        """Bring the card up to date."""
        is_running = find_writer(self._run.journal) is not None
        rows = self._journal.read()
        for row in rows:
            self._history.add_row(row)
        state = self._decide_state(is_running)
        if not rows and state == self.card.state and self._journal.damaged_rows == self.card.damaged_rows:
            return
        self.card = RunCard(
            name=self._run.name,
            state=state,
            facts=self._history.build_facts(time.time()),
            tasks=tuple(_build_task(self._history, slug) for slug in self._history.state.tasks),
            damaged_rows=self._journal.damaged_rows,
            budget_usd=_find_budget(self._run),
        )

    def _decide_state(self, is_running: bool) -> str:
        if is_running:
            return "running"
        if self._history.state.is_finished:
            return "settled"
        return "parked" if self._journal.is_ended else "interrupted"


class RunFollower:
    """Follows the latest runs of a project."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._runs: dict[str, _FollowedRun] = {}
        self.cards: tuple[RunCard, ...] = ()

    def read(self) -> None:
        """Bring the cards up to date, the latest run first."""
        names = list_runs(self._root)[-_MAX_RUNS:]
        self._runs = {name: self._runs.get(name) or _FollowedRun(self._root, name) for name in names}
        for run in self._runs.values():
            run.read()
        self.cards = tuple(self._runs[name].card for name in reversed(names))


def _find_budget(run: RunDir) -> float | None:
    """Return the budget in the plan of a run, or None when it has none or cannot be read."""
    for load in (load_plan, load_map_plan):
        try:
            return load(run).limits.budget
        except (MngrError, OSError, ValueError):
            continue
    return None


def _build_task(history: RunTimeline, slug: str) -> RunTask:
    task = history.state.tasks[slug]
    return RunTask(
        slug=slug,
        title=task.task.title,
        state=task.state,
        outcome=task.outcome,
        reason=task.reason,
        agent=task.agent,
        host=task.host,
        cost_usd=None if task.usage is None else task.usage.cost_usd,
    )
