"""Reads the facts for a pull request from the run's folder."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.base.errors import NotFound
from mngr.base.model import Struct
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, TaskState
from mngr.tmr.plan import RunPlan

Row = dict[str, Any]


_MAX_FILES = 2000  # files that are searched for a recording


class PullRequestFacts(Struct):
    """Everything that the text of a pull request is built from."""

    run: str
    agent: str  # the agent kind
    integration: Row  # integration.json
    changes: dict[str, Row]  # from changes.json, by id
    causes: list[Row] = []
    escalations: list[Row] = []
    unrepaired_causes: list[Row] = []
    tasks: list[TaskState] = []
    recordings: dict[str, str] = {}  # paths by task slug, relative to the run's folder

    def list_commits(self, *kinds: str) -> list[Row]:
        """Return the branch's commits of these kinds, in order."""
        return [row for row in self.integration["commits"] if row["kind"] in kinds]

    def list_changes(self, *kinds: str) -> list[Row]:
        """Return the changes in the commits of these kinds."""
        return [self.get_change(name) for row in self.list_commits(*kinds) for name in row["changes"]]

    def get_change(self, name: str) -> Row:
        """Return a change by id; an unknown one has only its id and title."""
        return self.changes.get(name) or {**_UNKNOWN_CHANGE, "id": name, "title": name}

    @property
    def fixed_tests(self) -> set[str]:
        """Return the tests that fail before and pass on the branch."""
        return {test for row in self.integration["commits"] for test in row.get("turned") or ()}

    @property
    def excluded_changes(self) -> list[Row]:
        """Return the excluded changes, without those that had nothing left to do."""
        return [row for row in self.integration["left_out"] if row["why"] != "already"]

    @property
    def flagged(self) -> list[tuple[Row, Row]]:
        """Return (commit, change) for each change that a person should look at."""
        rows = [
            (commit, self.get_change(name))
            for commit in self.list_commits("flagged", "fix")
            for name in commit["changes"]
        ]
        return [(commit, change) for commit, change in rows if change["flagged"] or commit["kind"] == "flagged"]


_UNKNOWN_CHANGE: Row = {"made_by": [], "findings": [], "flagged": False, "paths": [], "tasks": []}


def load_facts(run: RunDir, state: RunState, plan: RunPlan) -> PullRequestFacts:
    """Read the facts; raise NotFound when nothing has been integrated yet."""
    integration, gathered = _read_json(run, "integration.json"), _read_json(run, "changes.json")
    changes = {row["id"]: row for row in gathered["changes"]}
    fix_ids = [name for row in integration["commits"] if row["kind"] == "fix" for name in row["changes"]]
    first_authors = [changes[name]["made_by"][:1] for name in fix_ids if name in changes]
    recordings = {
        author["task"]: _find_recording(run, author["task"]) for authors in first_authors for author in authors
    }
    return PullRequestFacts(
        run=run.name, agent=plan.agent, integration=integration, changes=changes, causes=gathered["causes"],
        escalations=gathered["escalations"], unrepaired_causes=gathered["held"], tasks=list(state.tasks.values()),
        recordings={slug: path for slug, path in recordings.items() if path},
    )  # fmt: skip


def _read_json(run: RunDir, name: str) -> Row:
    try:
        with open(os.path.join(run.path, name), encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        raise NotFound(f"the run {run.name} has no {name}", f"make the branch: mngr tmr integrate {run.name}") from None


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
