"""Why people did not want a change: kept between runs, and told to whoever works at the same place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mngr.base import clock
from mngr.base.model import Struct
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits import untrusted
from mngr.tmr.prepare.history_files import HistoryFile

_KEPT, _TOLD = 500, 5  # of all; to one agent
_MAX_PATHS = 50  # of one change


class Rejection(Struct):
    """What somebody said about a change that they left out."""

    change: str  # its key: the same edit has the same in every run
    title: str
    paths: list[str]
    tests: list[str]  # that it was about
    reason: str
    run: str
    at: str

    @property
    def summary(self) -> str:
        """It in a line."""
        where = ", ".join(self.paths[:3]) + (", …" if len(self.paths) > 3 else "")
        return untrusted.clean_line(f"{self.title[:120]} ({where[:200]}): {self.reason}", 600)


def make_rejection(change: Change, reason: str, run: str) -> Rejection:
    """What is kept when a change is left out."""
    tests = sorted({*change.turned, *(maker.title for maker in change.made_by)})
    return Rejection(
        change=change.key, title=untrusted.clean_line(change.title), paths=[untrusted.clean_line(path) for path in change.paths[:_MAX_PATHS]],
        tests=tests, reason=untrusted.clean_line(reason, 1000), run=run, at=clock.format_timestamp(),
    )  # fmt: skip


class RejectionFile(HistoryFile[Rejection]):
    """`reasons.json`: one entry a change."""

    def __init__(self, root: str) -> None:
        super().__init__(root, "reasons.json", Rejection, "change")

    def add(self, found: Iterable[Rejection]) -> None:
        """Keep more; the oldest go when there are very many."""
        with self.edit_rows() as rows:
            rows |= {one.change: one for one in found}
            for old in sorted(rows.values(), key=lambda one: one.at)[:-_KEPT]:
                del rows[old.change]


def list_relevant_rejections(reasons: Iterable[Rejection], test: str, said: str = "") -> list[str]:
    """What the agent of a test should know, latest first: of the test, of its file, and of files that `said` names."""
    path = test.partition("::")[0]
    near = [
        one
        for one in reasons
        if test in one.tests or path in one.paths or any(_is_named(name, said) for name in one.paths)
    ]
    near.sort(key=lambda one: (test in one.tests, one.at), reverse=True)
    return [one.summary for one in near[:_TOLD]]


def _is_named(path: str, text: str) -> bool:
    return path in text and re.search(rf"(?<![\w.-]){re.escape(path)}(?!\w)", text) is not None
