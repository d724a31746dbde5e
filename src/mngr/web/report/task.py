"""The page of one task: claim and receipt, diff by commit, test runs, and conversation."""

from __future__ import annotations

from collections.abc import Mapping

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.mapreduce.journal.run_state import JournalRow
from mngr.web.report.baseline import BaselineTest, build_baseline_test
from mngr.web.report.conversation import Conversation, read_conversation
from mngr.web.report.diff.task_diff import TaskDiff, read_task_diff
from mngr.web.report.limited_reading import read_limited
from mngr.web.report.receipt import ReceiptCard, build_receipt_card, explain_missing_receipt
from mngr.web.report.report_data import ReportFacts, ReportTask
from mngr.web.report.test_runs import TestRuns, read_test_runs
from mngr.web.templates import render_template

_MAX_PROMPT_CHARACTERS = 100_000  # Of a prompt.
_MAX_JOURNAL_ROWS = 300
_SHOWN_FIELDS = ("agent", "host", "proof", "reason", "why", "error", "outcome", "until", "commit", "close_reason")


class StepRow(Struct):
    """A row of the journal."""

    at: str
    name: str
    details: str


class TaskPage(Struct):
    """The facts on the page of one task."""

    task: ReportTask
    previous: ReportTask | None
    next: ReportTask | None
    path: str  # The title without the name of the test.
    reason: str  # Why the task has its outcome, or what it is about.
    receipt: ReceiptCard | None
    missing_receipt: str  # Why there is no receipt.
    baseline: BaselineTest | None
    diff: TaskDiff
    test_runs: TestRuns
    conversation: Conversation
    texts: Mapping[str, str]  # Other files of the task, by title.
    steps: list[StepRow]


def render_task(local: Host, facts: ReportFacts, index: int, fingerprint: str) -> str:
    """Return the page of the task at an index; `fingerprint` identifies the facts that it shows."""
    page = build_task_page(local, facts, index)
    return render_template(
        "report/task.html",
        up="../",
        plays=page.test_runs.plays,
        is_live=facts.is_live and not page.task.is_over,
        fingerprint=fingerprint,
        facts=facts,
        page=page,
    )


def build_task_page(local: Host, facts: ReportFacts, index: int) -> TaskPage:
    """Return the facts on the page of the task at an index."""
    task = facts.tasks[index]
    run = facts.run
    return TaskPage(
        task=task,
        previous=facts.tasks[index - 1] if index else None,
        next=facts.tasks[index + 1] if index + 1 < len(facts.tasks) else None,
        path=task.title.rpartition("::")[0],
        reason=task.status.reason or task.about,
        receipt=build_receipt_card(task),
        missing_receipt=explain_missing_receipt(task),
        baseline=build_baseline_test(task.test, task.baseline_runs) if task.baseline_runs else None,
        diff=read_task_diff(local, facts, task),
        test_runs=read_test_runs(facts, task),
        conversation=read_conversation(run.task_path(task.slug, "transcript.jsonl")),
        texts={
            title: read_limited(run.task_path(task.slug, name), _MAX_PROMPT_CHARACTERS)
            for title, name in (
                ("prompt", "prompt.md"),
                ("uncommitted changes in the work dir", "uncommitted.diff"),
            )
        },
        steps=[_build_step(row) for row in task.journal_rows[-_MAX_JOURNAL_ROWS:]],
    )


def _build_step(row: JournalRow) -> StepRow:
    fields = row.to_dict()
    details = ", ".join(f"{key} {fields[key]}" for key in _SHOWN_FIELDS if fields.get(key))
    return StepRow(at=row.at, name=row.type_name, details=details)
