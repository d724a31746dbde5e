"""Reads the facts for a pull request from the run's folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from mngr.base.errors import NotFound
from mngr.base.model import Struct
from mngr.base.paths import open_plain_file
from mngr.mapreduce.journal.run_state import RunState, TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.changes_file import load_changes
from mngr.tmr.changes.collect_changes import Change, ChangeSize
from mngr.tmr.changes.integration_record import BranchCommit, ExcludedChange, Integration, find_integration
from mngr.tmr.changes.list_exclusions import EscalationGroup, ExcludedGroup
from mngr.tmr.prepare.journal_facts import RootCauseGivenUp, list_baseline_runs
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.verify.receipt import find_receipt

_MAX_FILES = 2000  # files that are searched for a transcript
_MAX_TRANSCRIPT_BYTES = 8000  # bytes that are read from the end of a transcript
_NOTHING_RAN = "none: mngr ran no test"  # the isolation in a receipt without a run


class PullRequestFacts(Struct):
    """Everything that the text of a pull request is built from."""

    run: str
    agent_kinds: dict[str, int] = {}  # tasks by the kind of their agent
    integration: Integration
    changes: dict[str, Change]  # by id
    excluded_groups: list[ExcludedGroup] = []
    escalations: list[EscalationGroup] = []
    unrepaired_causes: list[RootCauseGivenUp] = []
    tasks: list[TaskState] = []
    isolations: list[str] = []  # of the clean rooms in which mngr ran tests
    baseline_failures: dict[str, str] = {}  # why each test failed before any change
    transcripts: dict[str, str] = {}  # by task slug: the end of what mngr saw when it re-ran the task's test

    def list_commits(self, *kinds: str) -> list[BranchCommit]:
        """Return the branch's commits of these kinds, in order."""
        return [commit for commit in self.integration.commits if commit.kind in kinds]

    def list_changes(self, *kinds: str) -> list[Change]:
        """Return the changes in the commits of these kinds."""
        return [change for _, change in self.list_committed_changes(*kinds)]

    def list_committed_changes(self, *kinds: str) -> list[tuple[BranchCommit, Change]]:
        """Return each change in the commits of these kinds, after its commit."""
        commits = self.list_commits(*kinds)
        return [(commit, self.get_change_or_placeholder(name)) for commit in commits for name in commit.changes]

    def get_change_or_placeholder(self, change_id: str) -> Change:
        """Return a change by id; an unknown one has only its id and title."""
        return self.changes.get(change_id) or _UNKNOWN_CHANGE.replace(id=change_id, title=change_id)

    @property
    def excluded_changes(self) -> list[ExcludedChange]:
        """Return the excluded changes, without those that had nothing left to do."""
        return [row for row in self.integration.excluded if row.why != "already"]

    @property
    def flagged(self) -> list[tuple[BranchCommit, Change]]:
        """Return (commit, change) for each change that a person should look at."""
        rows = self.list_committed_changes("flagged", "fix")
        return [(commit, change) for commit, change in rows if change.flagged or commit.kind == "flagged"]


_UNKNOWN_CHANGE = Change(
    id="",
    key="",
    kind="",
    flagged=False,
    title="",
    body="",
    made_by=[],
    commit="",
    parent="",
    needs=[],
    paths=[],
    size=ChangeSize(files=0, added=0, removed=0),
    findings=[],
    fixed_tests=[],
    author="",
    authored="",
    committed="",
)


def load_facts(run: RunDir, state: RunState, plan: RunPlan) -> PullRequestFacts:
    """Read the facts; raise NotFound when nothing has been integrated yet."""
    integration = find_integration(run)
    if integration is None:
        raise NotFound(
            f"the run {run.name} has no integration.json", f"build the branch: mngr tmr integrate {run.name}"
        )
    record = load_changes(run)
    tasks = list(state.tasks.values())
    facts = PullRequestFacts(
        run=run.name,
        agent_kinds=dict(Counter(task.find_agent_kind() or plan.agent for task in tasks)),
        integration=integration,
        changes={change.id: change for change in record.changes},
        excluded_groups=record.excluded_groups,
        escalations=record.escalations,
        unrepaired_causes=record.unrepaired_root_causes,
        tasks=tasks,
        isolations=list_isolations(state, integration),
        baseline_failures=_list_baseline_failures(state),
    )
    return facts.replace(transcripts=_read_transcripts(run, facts.list_changes("fix", "flagged")))


def list_isolations(state: RunState, integration: Integration | None) -> list[str]:
    """Return how the clean rooms of a run were isolated. `none: REASON` comes first."""
    runs = [run for runs in list_baseline_runs(state).values() for run in runs]
    receipts = [receipt for task in state.tasks.values() if (receipt := find_receipt(task.check)) is not None]
    found = {run.isolation for run in runs} | {receipt.isolation for receipt in receipts}
    found.update([] if integration is None else integration.isolation)
    return sorted(found - {"", _NOTHING_RAN}, key=lambda isolation: (not isolation.startswith("none"), isolation))


def describe_missing_sandbox(isolations: Iterable[str]) -> str:
    """Return the sentences that say that tests ran without a sandbox, and why. Empty if all tests had one."""
    reasons = [isolation.partition(": ")[2] for isolation in isolations if isolation.startswith("none")]
    if not reasons:
        return ""
    reason = "; ".join(filter(None, reasons)) or "reason unknown"
    return f"mngr ran tests without a sandbox: {reason}. The tested code could change files outside its clean room."


def _list_baseline_failures(state: RunState) -> dict[str, str]:
    """Return why each test failed before any change. A test that passed has no entry."""
    failures = {}
    for test, runs in list_baseline_runs(state).items():
        failed = next((run for run in runs if run.outcome not in ("pass", "skip")), None)
        if failed is not None:
            failures[test] = failed.why or failed.outcome
    return failures


def _read_transcripts(run: RunDir, changes: list[Change]) -> dict[str, str]:
    """Return the end of the transcript for the first task of each change that has one."""
    transcripts = {}
    for slug in {change.tasks[0] for change in changes if change.tasks}:
        text = _read_transcript(run, slug)
        if text:
            transcripts[slug] = text
    return transcripts


def _read_transcript(run: RunDir, slug: str) -> str:
    """Return the end of a transcript of mngr's own runs of the task's test, or an empty string."""
    paths: list[str] = []
    for folder, _, names in os.walk(run.task_path(slug, "receipt")):
        paths += [os.path.join(folder, name) for name in names if name == "transcript.txt"]
        if len(paths) > _MAX_FILES:
            break
    if not paths:
        return ""
    try:
        with open_plain_file(min(paths)) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MAX_TRANSCRIPT_BYTES))
            return file.read(_MAX_TRANSCRIPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
