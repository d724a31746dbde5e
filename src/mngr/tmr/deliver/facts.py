"""What a pull request tells of, read from the run's folder."""

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


_MAX_FILES = 2000  # files that are looked through for a recording


class PullRequestFacts(Struct):
    """All that the text is made of."""

    run: str
    agent: str  # kind
    integration: Row  # integration.json
    changes: dict[str, Row]  # of changes.json, by id
    causes: list[Row] = []
    escalations: list[Row] = []
    unrepaired_causes: list[Row] = []
    tasks: list[TaskState] = []
    recordings: dict[str, str] = {}  # by slug, from the run's folder

    def list_commits(self, *kinds: str) -> list[Row]:
        """Those of the branch, in its order."""
        return [row for row in self.integration["commits"] if row["kind"] in kinds]

    def list_changes(self, *kinds: str) -> list[Row]:
        """The changes in those commits."""
        return [self.get_change(name) for row in self.list_commits(*kinds) for name in row["changes"]]

    def get_change(self, name: str) -> Row:
        """By id; with nothing but that where it is not known."""
        return self.changes.get(name) or {**_UNKNOWN_CHANGE, "id": name, "title": name}

    @property
    def fixed_tests(self) -> set[str]:
        """The tests that the branch turns green."""
        return {test for row in self.integration["commits"] for test in row.get("turned") or ()}

    @property
    def excluded_changes(self) -> list[Row]:
        """The changes that could have been in the branch."""
        return [row for row in self.integration["left_out"] if row["why"] != "already"]

    @property
    def flagged(self) -> list[tuple[Row, Row]]:
        """(commit, change) that a person should look at."""
        rows = [
            (commit, self.get_change(name))
            for commit in self.list_commits("flagged", "fix")
            for name in commit["changes"]
        ]
        return [(commit, one) for commit, one in rows if one["flagged"] or commit["kind"] == "flagged"]


_UNKNOWN_CHANGE: Row = {"made_by": [], "findings": [], "flagged": False, "paths": [], "tasks": []}


def load_facts(run: RunDir, state: RunState, plan: RunPlan) -> PullRequestFacts:
    """All of it; raises NotFound where nothing was integrated yet."""
    made, found = _read_json(run, "integration.json"), _read_json(run, "changes.json")
    changes = {row["id"]: row for row in found["changes"]}
    wanted = [name for row in made["commits"] if row["kind"] == "fix" for name in row["changes"]]
    makers = [changes[name]["made_by"][:1] for name in wanted if name in changes]
    seen = {one["task"]: _find_recording(run, one["task"]) for some in makers for one in some}
    return PullRequestFacts(
        run=run.name, agent=plan.agent, integration=made, changes=changes, causes=found["causes"],
        escalations=found["escalations"], unrepaired_causes=found["held"], tasks=list(state.tasks.values()),
        recordings={slug: path for slug, path in seen.items() if path},
    )  # fmt: skip


def _read_json(run: RunDir, name: str) -> Row:
    try:
        with open(os.path.join(run.path, name), encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        raise NotFound(f"the run {run.name} has no {name}", f"make the branch: mngr tmr integrate {run.name}") from None


def _find_recording(run: RunDir, slug: str) -> str | None:
    """The first recording of our own runs of a task's test, else what they said; from the run's folder."""
    found: list[str] = []
    for above, _, names in os.walk(run.task_path(slug, "receipt")):
        found += [os.path.relpath(os.path.join(above, name), run.path) for name in names]
        if len(found) > _MAX_FILES:
            break
    casts = sorted(path for path in found if path.endswith(".cast"))
    texts = sorted(path for path in found if path.endswith("/transcript.txt"))
    return next(iter(casts or texts), None)
