"""Keeps what the last audit of each test found, so that a run can begin with weak tests."""

from __future__ import annotations

from collections.abc import Mapping

from mngr.base import time_format
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.tmr.prepare.history.history_file import HistoryFile

_WEAK_OUTCOMES = ("vacuous", "unguarded")


class AuditedTest(Struct):
    """A test and the outcome of its last audit."""

    test: str
    outcome: str  # see verify/stub_audit.py
    at: str


class AuditedTestFile(HistoryFile[AuditedTest]):
    """The file `audits.json` in mngr's home, with one entry per test. An audit writes nothing into the project."""

    def __init__(self, home: Home, root: str) -> None:
        super().__init__(home, root, "audits.json", AuditedTest, "test")

    def add(self, outcomes: Mapping[str, str]) -> None:
        """Add or replace the outcomes of audits, by test."""
        if outcomes:
            now = time_format.format_timestamp()
            with self.edit_rows() as rows:
                rows |= {test: AuditedTest(test=test, outcome=outcome, at=now) for test, outcome in outcomes.items()}

    def list_weak(self) -> set[str]:
        """Return the tests that would not notice a broken program or a missing command or option."""
        return {test for test, row in self.read().items() if row.outcome in _WEAK_OUTCOMES}
