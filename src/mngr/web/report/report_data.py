"""Loads the facts for a report from the folder of a run. Agents wrote parts of it, so nothing is trusted."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from mngr.base import time_format
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object, get_text
from mngr.mapreduce.journal.journal_file import read_journal
from mngr.mapreduce.journal.replay import apply_task_row, find_task_slug, replay_rows
from mngr.mapreduce.journal.run_state import JournalRow, RunState, TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.changes_file import ChangesRecord, load_changes
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import Integration, find_integration
from mngr.tmr.changes.list_exclusions import ExcludedGroup
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.journal_facts import list_baseline_runs
from mngr.tmr.runners.test_run import TestRun
from mngr.tmr.status import RunStatus, TaskStatus, build_status
from mngr.tmr.verify.claim import AgentClaim, Escalation, load_claim
from mngr.tmr.verify.receipt import Receipt, find_receipt

WORST_FIRST = (
    "refuted",
    "failed",
    "blocked",
    "flaky",
    "unverified",
    "working",
    "talking",
    "launching",
    "pulling",
    "checking",
    "parked",
    "queued",
    "fixed",
    "improved",
    "unchanged",
)


class StateSpan(Struct):
    """A period in one state, in seconds since the epoch."""

    state: str
    begin: float
    end: float


class ReportTask(Struct):
    """One task of the run."""

    state: TaskState
    status: TaskStatus
    claim: AgentClaim | None  # None if the agent claims nothing.
    receipt: Receipt | None  # None if there is none, or if it is damaged.
    journal_rows: list[JournalRow]  # The task's rows of the journal.
    spans: list[StateSpan]
    baseline_runs: Sequence[TestRun] = ()  # The runs of the test before any change.

    @property
    def slug(self) -> str:
        """The name of the task in paths."""
        return self.state.task.slug

    @property
    def title(self) -> str:
        """The title of the task."""
        return self.state.task.title

    @property
    def short_title(self) -> str:
        """The title without the path of the test."""
        return self.title.rpartition("::")[2]

    @property
    def test(self) -> str:
        """The test of the task."""
        return self.state.task.data.get("test") or self.title

    @property
    def kind(self) -> str:
        """The kind of work: a test, a root cause, or any other task."""
        return self.state.task.data.get("kind") or "task"

    @property
    def about(self) -> str:
        """The description of the task, or nothing."""
        return self.state.task.data.get("about") or ""

    @property
    def is_over(self) -> bool:
        """True when the task has an outcome."""
        return self.status.outcome is not None

    @property
    def outcome(self) -> str:
        """The outcome of the task, or its state if it has not ended."""
        return self.status.outcome or self.status.state

    @property
    def claimed(self) -> str:
        """The outcome that the agent claims, or "nothing"."""
        return self.status.claimed or "nothing"

    @property
    def verdict(self) -> str:
        """The verdict of the receipt, or "none"."""
        return self.status.verdict or "none"

    @property
    def tokens(self) -> int:
        """The tokens that the agents of the task have used."""
        return 0 if self.status.usage is None else self.status.usage.tokens

    @property
    def change_kinds(self) -> list[str]:
        """The kinds of changes that the agent claims."""
        return [] if self.claim is None else sorted({change.kind for change in self.claim.changes})

    @property
    def escalations(self) -> Sequence[Escalation]:
        """The problems that the agent cannot decide."""
        return () if self.claim is None else self.claim.escalations

    @property
    def findings(self) -> list[Finding]:
        """All findings on the task's edit."""
        return [] if self.receipt is None else self.receipt.all_findings


class PlanSummary(Struct):
    """The parts of a run's plan that a report shows. A part is empty if the plan does not have it."""

    kind: str  # tmr | map
    agent: str
    base: str
    isolation: str = ""  # of the tests that mngr runs
    no_sandbox_reason: str = ""


class ReportFacts(Struct):
    """One run."""

    run: RunDir
    plan: PlanSummary
    status: RunStatus
    run_state: RunState
    tasks: list[ReportTask]
    baseline_runs: Mapping[str, Sequence[TestRun]]  # The runs before any change, by test.
    started_at: float
    ended_at: float  # The end of the run, or now.
    changes: list[Change]
    excluded_groups: list[ExcludedGroup]
    integration: Integration | None
    problems: list[str]  # Why the changes or the integration cannot be shown.

    @property
    def is_live(self) -> bool:
        """True when the run is not settled."""
        return self.status.state != "settled"


def load_facts(run: RunDir) -> ReportFacts:
    """Return the facts of a run; raise MngrError if the journal is damaged."""
    rows = read_journal(run.journal)
    status = build_status(run)
    state = replay_rows(rows)
    times = [time_format.parse_timestamp(row.at) for row in rows] or [time.time()]
    end_time = time.time() if status.state == "running" else times[-1]
    baseline_runs = list_baseline_runs(state)
    changes, changes_problems = _load_changes(run)
    integration, integration_problems = _load_integration(run)
    return ReportFacts(
        run=run,
        plan=_load_plan(run),
        status=status,
        run_state=state,
        tasks=sorted(_build_tasks(state, status, rows, baseline_runs, end_time), key=_rank_task),
        baseline_runs=baseline_runs,
        started_at=times[0],
        ended_at=end_time,
        changes=changes.changes,
        excluded_groups=changes.excluded_groups,
        integration=integration,
        problems=[*changes_problems, *integration_problems],
    )


def _build_tasks(
    state: RunState,
    status: RunStatus,
    rows: list[JournalRow],
    baseline_runs: Mapping[str, Sequence[TestRun]],
    end_time: float,
) -> list[ReportTask]:
    rows_by_slug: dict[str, list[JournalRow]] = {}
    for row in rows:
        rows_by_slug.setdefault(find_task_slug(row) or "", []).append(row)
    tasks = []
    for task_status in status.tasks:
        task_state = state.tasks.get(task_status.slug)
        if task_state is None:  # The task is newer than the rows that were read.
            continue
        task_rows = rows_by_slug[task_status.slug]
        tasks.append(
            ReportTask(
                state=task_state,
                status=task_status,
                claim=load_claim(task_state.claim) if task_state.claim else None,
                receipt=find_receipt(task_state.check),
                journal_rows=task_rows,
                spans=_build_spans(task_rows, end_time),
                baseline_runs=baseline_runs.get(task_state.task.data.get("test") or task_status.task, ()),
            )
        )
    return tasks


def _build_spans(task_rows: Sequence[JournalRow], end_time: float) -> list[StateSpan]:
    """Return the periods of a task in each state, without the time after its end."""
    spans: list[StateSpan] = []
    task: TaskState | None = None
    for row in task_rows:
        task = apply_task_row(task, row)
        if task is None:
            continue
        timestamp = time_format.parse_timestamp(row.at)
        if spans:
            spans[-1] = spans[-1].replace(end=timestamp)
        if not spans or spans[-1].state != task.state:
            spans.append(StateSpan(state=task.state, begin=timestamp, end=timestamp))
    if spans:
        spans[-1] = spans[-1].replace(end=max(spans[-1].begin, end_time))
    return [span for span in spans if span.state != "settled"]


def _rank_task(task: ReportTask) -> tuple[int, str]:
    rank = WORST_FIRST.index(task.outcome) if task.outcome in WORST_FIRST else len(WORST_FIRST)
    return rank, task.title


def count_in_order(words: Iterable[str], order: Sequence[str]) -> dict[str, int]:
    """Return how often each word occurs: first the words in the given order, then the others alphabetically."""
    counts = Counter(words)
    known = [word for word in order if word in counts]
    others = sorted(set(counts) - set(known))
    return {word: counts[word] for word in [*known, *others]}


def _load_plan(run: RunDir) -> PlanSummary:
    """Return the plan of a run of any kind; a plan that is missing or damaged counts as empty."""
    try:
        with open(run.plan, encoding="utf-8", errors="replace") as file:
            plan = as_object(json.load(file))
    except (OSError, ValueError):
        plan = {}
    return PlanSummary(
        kind=get_text(plan, "kind"),
        agent=get_text(plan, "agent"),
        base=get_text(plan, "base"),
        isolation=get_text(plan, "isolation"),
        no_sandbox_reason=get_text(plan, "no_sandbox_reason"),
    )


def _load_changes(run: RunDir) -> tuple[ChangesRecord, list[str]]:
    """Return the changes that exist so far, and the problem if they cannot be read."""
    no_changes = ChangesRecord(run=run.name, changes=[])
    try:
        return load_changes(run), []
    except NotFound:
        return no_changes, []
    except (OSError, ValueError) as error:
        return no_changes, [f"The changes cannot be read: {error}"]


def _load_integration(run: RunDir) -> tuple[Integration | None, list[str]]:
    """Return the integration, or None before it, and the problem if it cannot be read."""
    try:
        return find_integration(run), []
    except MngrError as error:
        return None, [error.message]
