"""The facts about the integration of a run: merged changes with their evidence, and excluded changes with reasons."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base.model import Struct
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import (
    AdvisedOrder,
    BranchCommit,
    ExcludedChange,
    Integration,
    describe_resolver,
)
from mngr.tmr.changes.list_exclusions import ExcludedGroup
from mngr.tmr.finding import Finding
from mngr.tmr.verify.red_green import RedGreenProof
from mngr.web.report.receipt import sort_findings
from mngr.web.report.report_data import ReportFacts, ReportTask


class TaskName(Struct):
    """A task of a change. `task` is None if the run does not have it."""

    slug: str
    task: ReportTask | None


class ChangeRow(Struct):
    """A change with the tasks that made it. `change` is None if only its id is known."""

    id: str
    change: Change | None
    tasks: list[TaskName]

    @property
    def kind(self) -> str:
        """The kind of the change, or that it needs a review."""
        if self.change is None:
            return ""
        return "flagged" if self.change.flagged else self.change.kind


class ConflictRow(Struct):
    """A conflict of a change with others, and who resolved it."""

    others: list[str]
    resolver: str


class ChangeEvidence(Struct):
    """Why mngr merged a change."""

    fixed_tests: Sequence[str]
    proof: RedGreenProof | None
    conflicts: list[ConflictRow]
    orders: list[AdvisedOrder]  # Those in which this change comes first.
    findings: list[Finding]
    finding_count: int  # Also of findings that repeat.


class CommitRow(Struct):
    """One commit of the branch with its changes."""

    commit: BranchCommit
    changes: list[ChangeRow]
    evidence: ChangeEvidence | None  # Only of a single change that is more than tests.


class ExcludedRow(Struct):
    """An excluded change with the reason and the evidence."""

    excluded: ExcludedChange
    row: ChangeRow


class ExcludedGroupRow(Struct):
    """One reason why tasks have nothing to merge."""

    group: ExcludedGroup
    tasks: list[TaskName]


class IntegrationCard(Struct):
    """The branch of a run, or the changes that could be merged before there is a branch."""

    integration: Integration | None
    candidates: list[ChangeRow]
    commits: list[CommitRow]
    excluded: list[ExcludedRow]
    groups: list[ExcludedGroupRow]
    problems: list[str]

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to show."""
        return self.integration is None and not (self.candidates or self.groups or self.problems)

    @property
    def verdict_label(self) -> str:
        """The verdict in words. A branch with failing tests is never shown as passing."""
        if self.integration is None:
            return ""
        labels = {"green": "all tests pass", "red": "regressions", "empty": "nothing to merge"}
        return "no regressions" if self.has_note else labels.get(self.integration.verdict, self.integration.verdict)

    @property
    def has_note(self) -> bool:
        """True when the branch has no regressions, but some tests still fail."""
        return (
            self.integration is not None
            and self.integration.verdict == "green"
            and bool(self.integration.still_failing)
        )


def build_integration_card(facts: ReportFacts) -> IntegrationCard:
    """Return the integration of a run, with links from its changes to the tasks that made them."""
    reader = _ChangeReader(facts)
    integration = facts.integration
    return IntegrationCard(
        integration=integration,
        candidates=[reader.build_change(change.id) for change in facts.changes] if integration is None else [],
        commits=[] if integration is None else [reader.build_commit(integration, each) for each in integration.commits],
        excluded=[]
        if integration is None
        else [ExcludedRow(excluded=each, row=reader.build_change(each.change)) for each in integration.excluded],
        groups=[ExcludedGroupRow(group=group, tasks=reader.list_tasks(group.tasks)) for group in facts.excluded_groups],
        problems=facts.problems,
    )


class _ChangeReader:
    """Finds the changes by id, with their tasks and proofs."""

    def __init__(self, facts: ReportFacts) -> None:
        self._tasks = {task.slug: task for task in facts.tasks}
        self._proofs = {task.slug: task.receipt.proofs for task in facts.tasks if task.receipt is not None}
        self._changes = {change.id: change for change in facts.changes}

    def list_tasks(self, slugs: Sequence[str]) -> list[TaskName]:
        return [TaskName(slug=slug, task=self._tasks.get(slug)) for slug in slugs]

    def build_change(self, change_id: str) -> ChangeRow:
        change = self._changes.get(change_id)
        tasks = [] if change is None else self.list_tasks(change.tasks)
        return ChangeRow(id=change_id, change=change, tasks=tasks)

    def build_commit(self, integration: Integration, commit: BranchCommit) -> CommitRow:
        """Return one commit; a single change comes with its evidence."""
        change = self._changes.get(commit.changes[0]) if len(commit.changes) == 1 else None
        has_evidence = change is not None and commit.kind != "test"
        return CommitRow(
            commit=commit,
            changes=[self.build_change(change_id) for change_id in commit.changes],
            evidence=self._build_evidence(integration, commit, change) if has_evidence and change is not None else None,
        )

    def _build_evidence(self, integration: Integration, commit: BranchCommit, change: Change) -> ChangeEvidence:
        return ChangeEvidence(
            fixed_tests=commit.fixed_tests,
            proof=self._find_proof(change),
            conflicts=[
                ConflictRow(others=conflict.others, resolver=describe_resolver(conflict.by))
                for conflict in integration.resolved
                if conflict.change == change.id
            ],
            orders=[order for order in integration.advised_orders if order.changes[:1] == [change.id]],
            findings=sort_findings(change.findings),
            finding_count=len(change.findings),
        )

    def _find_proof(self, change: Change) -> RedGreenProof | None:
        """Return the proof of the first receipt that says whether the change is needed, or None."""
        for author in change.made_by:
            for proof in self._proofs.get(author.task, []):
                if proof.is_needed is not None and not set(author.commits).isdisjoint(proof.fixes):
                    return proof
        return None
