"""Keeps people's reasons for rejecting changes between runs, and shows them to agents that work on the same files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mngr.base import time_format
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.commits import clean_untrusted_text
from mngr.tmr.prepare.history.history_file import HistoryFile

_MAX_SAVED = 500  # rejections in the file
_MAX_SHOWN = 5  # rejections shown to one agent
_MAX_PATHS = 50  # paths of one change


class Rejection(Struct):
    """A change that a person excluded, with the reason."""

    change: str  # its key, which is the same for the same edit in every run
    title: str
    paths: list[str]
    tests: list[str]  # the tests that it was about
    reason: str
    run: str
    at: str

    @property
    def summary(self) -> str:
        """Return the rejection as one line."""
        path_list = ", ".join(self.paths[:3]) + (", …" if len(self.paths) > 3 else "")
        return clean_untrusted_text.clean_line(f"{self.title[:120]} ({path_list[:200]}): {self.reason}", 600)


def make_rejection(change: Change, reason: str, run: str) -> Rejection:
    """Return the rejection of a change."""
    tests = sorted({*change.fixed_tests, *(maker.title for maker in change.made_by)})
    return Rejection(
        change=change.key,
        title=clean_untrusted_text.clean_line(change.title),
        paths=[clean_untrusted_text.clean_line(path) for path in change.paths[:_MAX_PATHS]],
        tests=tests,
        reason=clean_untrusted_text.clean_line(reason, 1000),
        run=run,
        at=time_format.format_timestamp(),
    )


class RejectionFile(HistoryFile[Rejection]):
    """The file `reasons.json`, with one entry per change."""

    def __init__(self, home: Home, root: str) -> None:
        super().__init__(home, root, "reasons.json", Rejection, "change")

    def add(self, rejections: Iterable[Rejection]) -> None:
        """Add rejections, and drop the oldest beyond the limit."""
        with self.edit_rows() as rows:
            rows |= {rejection.change: rejection for rejection in rejections}
            for old in sorted(rows.values(), key=lambda rejection: rejection.at)[:-_MAX_SAVED]:
                del rows[old.change]


def list_relevant_rejections(rejections: Iterable[Rejection], test: str, evidence: str = "") -> list[str]:
    """Return the rejections that the agent of a test should know, as text.

    They concern the test, its file, or files that `evidence` names. Those of the test come first, then the latest.
    """
    path = test.partition("::")[0]
    relevant = [
        rejection
        for rejection in rejections
        if test in rejection.tests
        or path in rejection.paths
        or any(_is_named(name, evidence) for name in rejection.paths)
    ]
    relevant.sort(key=lambda rejection: (test in rejection.tests, rejection.at), reverse=True)
    return [rejection.summary for rejection in relevant[:_MAX_SHOWN]]


def _is_named(path: str, text: str) -> bool:
    """True when a text names the path."""
    return path in text and re.search(rf"(?<![\w.-]){re.escape(path)}(?!\w)", text) is not None
