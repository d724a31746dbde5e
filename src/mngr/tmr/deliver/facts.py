"""Reads the facts for a pull request from the run's folder."""

from __future__ import annotations

import os

from mngr.base.errors import NotFound
from mngr.base.model import Struct
from mngr.mapreduce.journal.run_state import RunState, TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.changes_file import load_changes
from mngr.tmr.changes.collect_changes import Change, ChangeSize
from mngr.tmr.changes.excluded_tasks import EscalationGroup, ExcludedGroup
from mngr.tmr.changes.integration_record import BranchCommit, ExcludedChange, Integration, find_integration
from mngr.tmr.plan import RunPlan, describe_missing_sandbox
from mngr.tmr.prepare.baseline_rows import RootCauseGivenUp

_MAX_FILES = 2000  # files that are searched for a recording


class PullRequestFacts(Struct):
    """Everything that the text of a pull request is built from."""

    run: str
    agent: str  # the agent kind
    integration: Integration
    changes: dict[str, Change]  # by id
    causes: list[ExcludedGroup] = []
    escalations: list[EscalationGroup] = []
    unrepaired_causes: list[RootCauseGivenUp] = []
    tasks: list[TaskState] = []
    missing_sandbox: str = ""  # a sentence, if mngr ran tests without a sandbox
    recordings: dict[str, str] = {}  # paths by task slug, relative to the run's folder

    def list_commits(self, *kinds: str) -> list[BranchCommit]:
        """Return the branch's commits of these kinds, in order."""
        return [commit for commit in self.integration.commits if commit.kind in kinds]

    def list_changes(self, *kinds: str) -> list[Change]:
        """Return the changes in the commits of these kinds."""
        return [change for _, change in self.list_committed_changes(*kinds)]

    def list_committed_changes(self, *kinds: str) -> list[tuple[BranchCommit, Change]]:
        """Return each change in the commits of these kinds, after its commit."""
        commits = self.list_commits(*kinds)
        return [(commit, self.get_change(name)) for commit in commits for name in commit.changes]

    def get_change(self, name: str) -> Change:
        """Return a change by id; an unknown one has only its id and title."""
        return self.changes.get(name) or _UNKNOWN_CHANGE.replace(id=name, title=name)

    @property
    def fixed_tests(self) -> set[str]:
        """Return the tests that fail before and pass on the branch."""
        return {test for commit in self.integration.commits for test in commit.fixed_tests}

    @property
    def excluded_changes(self) -> list[ExcludedChange]:
        """Return the excluded changes, without those that had nothing left to do."""
        return [row for row in self.integration.left_out if row.why != "already"]

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
        raise NotFound(f"the run {run.name} has no integration.json", f"make the branch: mngr tmr integrate {run.name}")
    record = load_changes(run)
    facts = PullRequestFacts(
        run=run.name,
        agent=plan.agent,
        integration=integration,
        changes={change.id: change for change in record.changes},
        causes=record.causes,
        escalations=record.escalations,
        unrepaired_causes=record.held,
        tasks=list(state.tasks.values()),
        missing_sandbox=describe_missing_sandbox(plan.isolation, plan.no_sandbox_reason),
    )
    return facts.replace(recordings=_find_recordings(run, facts.list_changes("fix")))


def _find_recordings(run: RunDir, fixes: list[Change]) -> dict[str, str]:
    """Return a recording for the first task of each fix that has one."""
    recordings = {}
    for change in fixes:
        for slug in change.tasks[:1]:
            path = _find_recording(run, slug)
            if path is not None:
                recordings[slug] = path
    return recordings


def _find_recording(run: RunDir, slug: str) -> str | None:
    """Return a recording of mngr's own runs of the task's test, else a transcript, as a path in the run's folder."""
    paths: list[str] = []
    for folder, _, names in os.walk(run.task_path(slug, "receipt")):
        paths += [os.path.relpath(os.path.join(folder, name), run.path) for name in names]
        if len(paths) > _MAX_FILES:
            break
    recordings = sorted(path for path in paths if path.endswith(".cast"))
    transcripts = sorted(path for path in paths if path.endswith("/transcript.txt"))
    return next(iter(recordings or transcripts), None)
