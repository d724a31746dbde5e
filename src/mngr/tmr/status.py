"""The status of a run, read from its journal, for `tmr status` and the dashboard."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.untrusted_json import find_text
from mngr.host import host_store
from mngr.host.protocol import Host
from mngr.mapreduce.journal import host_costs
from mngr.mapreduce.journal.agent_usage import AgentUsage, sum_usages
from mngr.mapreduce.journal.host_costs import HostCosts, RunHost
from mngr.mapreduce.journal.journal_file import find_writer, iter_journal, read_journal
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.journal.run_rows import EndedRow
from mngr.mapreduce.journal.run_state import Alert, JournalRow, RunState, TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.conflict_graph import LineOverlap, list_overlaps
from mngr.tmr.changes.list_exclusions import list_unrepaired_causes
from mngr.tmr.commits.clean_untrusted_text import clean_line, is_commit_id
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.journal_facts import (
    BaselineRun,
    RootCauseFound,
    RootCauseGivenUp,
    TestsCollected,
    TestSkipped,
    list_facts,
)
from mngr.tmr.prepare.root_causes import RootCause
from mngr.tmr.run_plan import load_plan
from mngr.tmr.verify.receipt import find_all_findings, find_verdict

_MAX_HEADS = 500  # commits that are compared at most
_PREPARING_TEXT = "mngr prepares one host, and then creates all other hosts from its snapshot"


class TaskStatus(Struct):
    """A task, as `tmr status` shows it."""

    task: str
    slug: str
    state: str
    outcome: str | None
    reason: str | None
    claimed: str | None
    verdict: str | None
    findings: list[Finding]
    root_cause: str | None
    before: str  # where mngr ran the test before any change, and how the runs ended; empty if unknown
    agent: str | None
    agent_kind: str | None
    host: str | None
    commit: str | None
    attempt: int
    reminders: int
    parked_until: str | None
    seconds: float | None
    usage: AgentUsage | None
    usage_by_purpose: Mapping[str, AgentUsage]
    tokens_before_edit: int | None


class BudgetStatus(AgentUsage):
    """What a run has used so far, in total and by purpose."""

    usage_by_purpose: Mapping[str, AgentUsage]
    tokens_before_edit: int | None  # on average, over the agents that edited a file
    hosts: HostCosts


class RunStatus(Struct):
    """A run, as `tmr status` shows it."""

    run: str
    state: str  # running | settled | parked | interrupted
    tasks: list[TaskStatus]
    root_causes: list[RootCause]
    unrepaired_root_causes: list[RootCauseGivenUp]
    skipped: list[TestSkipped]
    alerts: Sequence[Alert]
    alarm: str | None
    waits: str | None
    budget: BudgetStatus
    counts: dict[str, int]  # tasks by outcome, or by state before they have one
    converging: list[LineOverlap] | None  # places where several agents changed the same lines, if asked for


def build_status(run: RunDir, local: Host | None = None) -> RunStatus:
    """Return the status. With a host, it includes the tasks that are `converging` on the same lines."""
    last_rows: deque[JournalRow] = deque(maxlen=1)

    def iter_rows() -> Iterator[JournalRow]:
        for row in iter_journal(run.journal, skip=(BaselineRun.type_name, TestsCollected.type_name)):
            last_rows.append(row)
            yield row

    state = replay_rows(iter_rows())
    questions = _load_question_state(run)
    hosts = [_refresh_host(local, name, host) for name, host in (*state.hosts.items(), *questions.hosts.items())]
    default_kind = _find_planned_kind(run)
    tasks = [_summarize_task(task, default_kind) for task in state.tasks.values()]
    return RunStatus(
        run=run.name,
        state=_decide_state(run, last_rows, state.is_finished),
        tasks=tasks,
        root_causes=[fact.root_cause for fact in list_facts(state, RootCauseFound)],
        unrepaired_root_causes=list_unrepaired_causes(state),
        skipped=list_facts(state, TestSkipped),
        alerts=state.alerts,
        alarm=None if state.open_alarm is None else state.open_alarm.text,
        waits=state.wait_reason or (_PREPARING_TEXT if state.pending_snapshot else None),
        budget=_summarize_budget([*state.tasks.values(), *questions.tasks.values()], hosts),
        counts=dict(Counter(task.outcome or task.state for task in tasks)),
        converging=None if local is None else _list_overlapping_work(local, run, state),
    )


def _find_planned_kind(run: RunDir) -> str | None:
    """Return the agent kind of the plan, or None for a run of `mngr map` or a plan that cannot be read."""
    try:
        return load_plan(run).agent
    except MngrError:
        return None


def _list_overlapping_work(local: Host, run: RunDir, state: RunState) -> list[LineOverlap]:
    """Return the places where several agents changed the same lines, by the work collected so far.

    Only tasks with the same base are compared.
    """
    try:
        plan = load_plan(run)
        bases: dict[str, dict[str, str]] = {}
        for slug, task in list(state.tasks.items())[:_MAX_HEADS]:
            base = task.base or plan.base
            if is_commit_id(task.commit) and is_commit_id(base) and task.commit != base:
                bases.setdefault(base, {})[slug] = str(task.commit)
        overlaps = [
            overlap.replace(path=clean_line(overlap.path, 1000))
            for base, heads in sorted(bases.items())
            for overlap in list_overlaps(local, run.repo, base, heads)
        ]
    except MngrError:  # a run of `mngr map`, or one with too little data yet
        return []
    return sorted(overlaps, key=lambda overlap: (-len(overlap.who), overlap.path, overlap.first))


def _decide_state(run: RunDir, last_rows: Sequence[JournalRow], is_finished: bool) -> str:
    if find_writer(run.journal) is not None:
        return "running"
    if is_finished:
        return "settled"
    return "parked" if last_rows and isinstance(last_rows[-1], EndedRow) else "interrupted"


def _summarize_task(task: TaskState, default_kind: str | None) -> TaskStatus:
    return TaskStatus(
        task=task.task.title,
        slug=task.task.slug,
        state=task.state,
        outcome=task.outcome,
        reason=task.reason,
        claimed=find_text(task.claim, "outcome"),
        verdict=find_verdict(task.check),
        findings=find_all_findings(task.check),
        root_cause=task.task.data.get("root_cause"),
        before=task.task.data.get("before", ""),
        agent=task.agent,
        agent_kind=task.find_agent_kind() or default_kind,
        host=task.host,
        commit=task.commit,
        attempt=task.attempt,
        reminders=task.reminders,
        parked_until=task.parked_until,
        seconds=_measure_duration(task),
        usage=task.usage,
        usage_by_purpose=task.usage_by_purpose,
        tokens_before_edit=task.tokens_before_edit,
    )


def _measure_duration(task: TaskState) -> float | None:
    """Return the seconds since the task's first launch, until its end or until now."""
    if task.began_at is None:
        return None
    end = time_format.parse_timestamp(task.ended_at) if task.ended_at else time.time()
    return round(end - time_format.parse_timestamp(task.began_at), 1)


def _refresh_host(local: Host | None, name: str, host: RunHost) -> RunHost:
    """Return the host, with its billing ended if it was destroyed since the last journal row."""
    home = None if local is None or host.billed_since is None else local.home
    if home is None or host_store.find_facts(home, host.provider, name) is not None:
        return host
    if host_store.find_facts(home, host.provider, name, "gone") is None:
        return host
    gone_at = time.time() - host_store.get_age(home, host.provider, name, "gone")
    return host.stop_billing(time_format.format_timestamp(gone_at), "gone")


def _load_question_state(run: RunDir) -> RunState:
    """Return the state of the questions that the run's integration asked agents."""
    return replay_rows(read_journal(os.path.join(run.path, "integrate", "journal.jsonl")))


def _summarize_budget(tasks: Sequence[TaskState], hosts: Sequence[RunHost]) -> BudgetStatus:
    """Return the usage of tasks and questions, and the cost of the hosts."""
    total = sum_usages(task.usage for task in tasks if task.usage is not None)
    by_purpose: dict[str, list[AgentUsage]] = {}
    for task in tasks:
        for purpose, usage in task.usage_by_purpose.items():
            by_purpose.setdefault(purpose, []).append(usage)
    before_edit = [task.tokens_before_edit for task in tasks if task.tokens_before_edit is not None]
    return BudgetStatus(
        **total.to_dict(),
        usage_by_purpose={purpose: sum_usages(usages) for purpose, usages in by_purpose.items()},
        tokens_before_edit=round(sum(before_edit) / len(before_edit)) if before_edit else None,
        hosts=host_costs.summarize_costs(hosts),
    )
