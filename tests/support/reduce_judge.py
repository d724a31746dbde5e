"""Checks an integration of tests/support/reduce_world.py:

it holds all it can, and excludes the rest with the right reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.reduce_world import World

OUT = ("breaks", "more_failures", "needs")  # reasons to exclude a change that merges


def judge(world: World, integration: dict[str, Any]) -> list[str]:
    """Return what is wrong with an integration.json, as sentences."""
    return _Judge(world, integration).all()


class _Judge:
    """Compares the outcome of each task with the allowed outcomes."""

    def __init__(self, world: World, integration: dict[str, Any]) -> None:
        self.world, self.found = world, integration
        text = Path(world.run.path, "changes.json").read_text()
        self.changes: dict[str, dict[str, Any]] = {row["id"]: row for row in json.loads(text)["changes"]}
        self.held = [name for row in integration["commits"] for name in row["changes"]]
        self.out: dict[str, dict[str, Any]] = {row["change"]: row for row in integration["excluded"]}
        self.wrong: list[str] = []

    def all(self) -> list[str]:
        """Return all problems."""
        for name in self.changes:
            count = self.held.count(name) + (name in self.out)
            if count != 1:
                self.wrong.append(f"the change {name} is named {count} times")
        groups: dict[int, list[str]] = {}
        for slug, branch in self.world.tasks.items():
            groups.setdefault(branch.group, []).append(slug)
        for group, slugs in groups.items():
            complete = [slug for slug in slugs if not self._missing(slug)]
            max_held = self.world.shop.most[group]
            if len(complete) != max_held:
                self._say(slugs[0], f"{len(complete)} of {slugs} are held, not {max_held}")
            for slug in set(slugs).difference(complete):
                self._judge(slug, complete)
        return self.wrong

    def _say(self, slug: str, problem: str) -> None:
        self.wrong.append(f"{self.world.tasks[slug].kind}: {problem}")

    def _of(self, slug: str) -> list[str]:
        return [name for name, row in self.changes.items() if slug in row["tasks"]]

    def _missing(self, slug: str) -> list[dict[str, Any]]:
        rows = [self.out[name] for name in self._of(slug) if name in self.out]
        return [row for row in rows if row["why"] != "already"]

    def _judge(self, slug: str, held: list[str]) -> None:
        """Check a task that is not held completely."""
        branch, rows = self.world.tasks[slug], self._missing(slug)
        reasons = [row["why"] for row in rows]
        if not set(reasons).issubset(("conflict", *OUT) if branch.kind == "text" else OUT):
            self._say(slug, f"{slug} is left out because of {reasons}")
        partly_held = [self.changes[name] for name in self._of(slug) if name in self.held]
        if branch.kind == "breaks":
            partly_held = [row for row in partly_held if row["kind"] != "fix" or not branch.flagged]
        if partly_held:
            self._say(
                slug,
                f"{slug} is held in part: {[row['title'] for row in partly_held]}, not {[row['title'] for row in rows]}",
            )
        if branch.kind == "text":
            self._text(slug, [row for row in rows if row["why"] == "conflict"], held)
        elif branch.kind in ("semantic", "breaks"):
            allowed_reasons = ("breaks", "more_failures") if branch.kind == "breaks" else ("breaks",)
            proven = [row for row in rows if row["why"] in allowed_reasons and row["proof"]]
            if not proven:
                self._say(slug, f"{slug} is left out without proof: {[(row['why'], row['reason']) for row in rows]}")
            for row in proven:
                self._proof(slug, row["proof"])

    def _text(self, slug: str, rows: list[dict[str, Any]], held: list[str]) -> None:
        others = {task for row in rows for name in row["others"] for task in self.changes[name]["tasks"]}
        if not others.intersection(held):
            self._say(
                slug,
                f"{slug} does not say that it is in conflict with one of {held}, but with {sorted(others)}",
            )

    def _proof(self, slug: str, proof: dict[str, Any]) -> None:
        test, branch = proof["test"], self.world.tasks[slug]
        if (proof["before"], proof["after"] == "pass") != ("pass", False):
            self._say(slug, f"the proof of {slug} is {proof['before']}, then {proof['after']}")
        group_files = {self.world.tasks[other].test.partition("::")[0] for other in self.world.members(branch.group)}
        if branch.kind == "semantic" and test.partition("::")[0] not in group_files:
            self._say(slug, f"the proof of {slug} is {test}, which is none of {sorted(group_files)}")
        if branch.kind == "breaks" and test not in self.world.shop.tests:
            self._say(slug, f"the proof of {slug} is {test}, which is no test of the base")
