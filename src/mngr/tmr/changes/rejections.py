"""Why people did not want a change: kept between runs, and told to whoever works at the same place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mngr.base import clock
from mngr.base.model import Record
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits import hostile
from mngr.tmr.prepare.history_files import Kept

_KEPT, _TOLD = 500, 5  # of all; to one agent
_PATHS = 50  # of one change


class Reason(Record):
    """What somebody said about a change that they left out."""

    change: str  # its key: the same edit has the same in every run
    title: str
    paths: list[str]
    tests: list[str]  # that it was about
    reason: str
    run: str
    at: str

    @property
    def told(self) -> str:
        """It in a line."""
        where = ", ".join(self.paths[:3]) + (", …" if len(self.paths) > 3 else "")
        return hostile.clean(f"{self.title[:120]} ({where[:200]}): {self.reason}", 600)


def reason_of(change: Change, reason: str, run: str) -> Reason:
    """What is kept when a change is left out."""
    tests = sorted({*change.turned, *(maker.title for maker in change.made_by)})
    return Reason(
        change=change.key, title=hostile.clean(change.title), paths=[hostile.clean(path) for path in change.paths[:_PATHS]],
        tests=tests, reason=hostile.clean(reason, 1000), run=run, at=clock.stamp(),
    )  # fmt: skip


class Reasons(Kept[Reason]):
    """`reasons.json`: one entry a change."""

    def __init__(self, root: str) -> None:
        super().__init__(root, "reasons.json", Reason, "change")

    def add(self, found: Iterable[Reason]) -> None:
        """Keep more; the oldest go when there are very many."""
        with self.writing() as rows:
            rows |= {one.change: one for one in found}
            for old in sorted(rows.values(), key=lambda one: one.at)[:-_KEPT]:
                del rows[old.change]


def concerning(reasons: Iterable[Reason], test: str, said: str = "") -> list[str]:
    """What the agent of a test should know, latest first: of the test, of its file, and of files that `said` names."""
    path = test.partition("::")[0]
    near = [
        one
        for one in reasons
        if test in one.tests or path in one.paths or any(_is_named(name, said) for name in one.paths)
    ]
    near.sort(key=lambda one: (test in one.tests, one.at), reverse=True)
    return [one.told for one in near[:_TOLD]]


def _is_named(path: str, text: str) -> bool:
    return path in text and re.search(rf"(?<![\w.-]){re.escape(path)}(?!\w)", text) is not None
