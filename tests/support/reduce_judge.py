"""Whether an integration of tests/support/reduce_world.py holds all that can be held, and names the rest with the right reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.reduce_world import World

OUT = ("breaks", "redder", "needs")  # why something is not held that could not be, though it merges


def judge(world: World, found: dict[str, Any]) -> list[str]:
    """What is wrong with an integration.json, in sentences."""
    return _Judge(world, found).all()


class _Judge:
    """Compares what became of each task with what may."""

    def __init__(self, world: World, found: dict[str, Any]) -> None:
        self.world, self.found = world, found
        text = Path(world.run.path, "changes.json").read_text()
        self.changes: dict[str, dict[str, Any]] = {row["id"]: row for row in json.loads(text)["changes"]}
        self.held = [name for row in found["commits"] for name in row["changes"]]
        self.out: dict[str, dict[str, Any]] = {row["change"]: row for row in found["left_out"]}
        self.wrong: list[str] = []

    def all(self) -> list[str]:
        for name in self.changes:
            times = self.held.count(name) + (name in self.out)
            if times != 1:
                self.wrong.append(f"the change {name} is named {times} times")
        groups: dict[int, list[str]] = {}
        for slug, one in self.world.tasks.items():
            groups.setdefault(one.group, []).append(slug)
        for group, slugs in groups.items():
            whole = [slug for slug in slugs if not self._missing(slug)]
            most = self.world.shop.most[group]
            if len(whole) != most:
                self._say(slugs[0], f"{len(whole)} of {slugs} are held, not {most}")
            for slug in set(slugs).difference(whole):
                self._judge(slug, whole)
        return self.wrong

    def _say(self, slug: str, what: str) -> None:
        self.wrong.append(f"{self.world.tasks[slug].kind}: {what}")

    def _of(self, slug: str) -> list[str]:
        return [name for name, row in self.changes.items() if slug in row["tasks"]]

    def _missing(self, slug: str) -> list[dict[str, Any]]:
        rows = [self.out[name] for name in self._of(slug) if name in self.out]
        return [row for row in rows if row["why"] != "already"]

    def _judge(self, slug: str, held: list[str]) -> None:
        """One that is not held as a whole."""
        one, rows = self.world.tasks[slug], self._missing(slug)
        whys = [row["why"] for row in rows]
        if not set(whys).issubset(("conflict", *OUT) if one.kind == "text" else OUT):
            self._say(slug, f"{slug} is left out because of {whys}")
        kept = [self.changes[name] for name in self._of(slug) if name in self.held]
        if one.kind == "breaks":
            kept = [row for row in kept if row["kind"] != "fix" or not one.flagged]
        if kept:
            self._say(
                slug,
                f"{slug} is held in part: {[row['title'] for row in kept]}, not {[row['title'] for row in rows]}",
            )
        if one.kind == "text":
            self._text(slug, [row for row in rows if row["why"] == "conflict"], held)
        elif one.kind in ("semantic", "breaks"):
            wanted = ("breaks", "redder") if one.kind == "breaks" else ("breaks",)
            proven = [row for row in rows if row["why"] in wanted and row["proof"]]
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
        test, own = proof["test"], self.world.tasks[slug]
        if (proof["before"], proof["after"] == "pass") != ("pass", False):
            self._say(slug, f"the proof of {slug} is {proof['before']}, then {proof['after']}")
        near = {self.world.tasks[other].test.partition("::")[0] for other in self.world.members(own.group)}
        if own.kind == "semantic" and test.partition("::")[0] not in near:
            self._say(slug, f"the proof of {slug} is {test}, which is none of {sorted(near)}")
        if own.kind == "breaks" and test not in self.world.shop.tests:
            self._say(slug, f"the proof of {slug} is {test}, which is no test of the base")
