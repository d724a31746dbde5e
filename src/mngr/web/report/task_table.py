"""The facts for the table of all tasks on the first page of a report. `report.js` sorts and filters it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mngr.base.model import Struct
from mngr.tmr.verify.receipt import VERDICTS
from mngr.web.report.report_data import WORST_FIRST, ReportFacts, ReportTask, count_in_order

COLUMNS = ("outcome", "task", "claimed", "verdict", "findings", "changes", "time", "tokens", "cost")


class TableFilter(Struct):
    """The values by which a reader can filter the tasks."""

    name: str
    values: list[str]


class TaskRow(Struct):
    """One task in the table."""

    task: ReportTask
    path: str  # The title without the name of the test.
    explanation: str  # The reason of the outcome, or what the agent says.
    kinds: str  # The kinds of the claimed changes, and the kind of the task.
    finding_counts: dict[str, int]  # By level.


class TaskTable(Struct):
    """The table of all tasks, the worst first."""

    columns: Sequence[str]
    filters: list[TableFilter]
    rows: list[TaskRow]


def build_task_table(facts: ReportFacts) -> TaskTable:
    """Return the table of all tasks."""
    outcomes = count_in_order((task.outcome for task in facts.tasks), WORST_FIRST)
    verdicts = count_in_order((task.verdict for task in facts.tasks), VERDICTS)
    kinds = sorted({kind for task in facts.tasks for kind in _list_kinds(task)})
    return TaskTable(
        columns=COLUMNS,
        filters=[
            TableFilter(name="outcome", values=list(outcomes)),
            TableFilter(name="verdict", values=list(verdicts)),
            TableFilter(name="kind", values=kinds),
        ],
        rows=[_build_row(task) for task in facts.tasks],
    )


def _list_kinds(task: ReportTask) -> list[str]:
    return [*task.change_kinds, task.kind]


def _build_row(task: ReportTask) -> TaskRow:
    summary = "" if task.claim is None else task.claim.summary
    return TaskRow(
        task=task,
        path=task.title.rpartition("::")[0],
        explanation=(task.status.reason or summary or task.about).strip("- \n"),
        kinds=" ".join(_list_kinds(task)),
        finding_counts=Counter(finding.level for finding in task.findings),
    )
