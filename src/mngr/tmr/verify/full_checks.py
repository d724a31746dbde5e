"""A receipt in full: would the test notice a program that does nothing, and does it still see the faults that it saw before?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.tmr.cleanroom.rooms import Rooms
from mngr.tmr.cleanroom.test_run import Test, TestRun, command
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_of_tests, is_test_file
from mngr.tmr.verify.audit import Audited, examine
from mngr.tmr.verify.claim_runs import Bench
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.mutation import mutate
from mngr.tmr.verify.request import Claim, How
from mngr.tmr.verify.text_checks import changed_tests

_RULES = 1  # goes up when the same audit may now end otherwise
_MODES = ("nop", "help")


def passed(own: Sequence[TestRun]) -> bool:
    """Whether a test passed every time."""
    return all(run.outcome == "pass" for run in own)


class Depth:
    """What is done for one claim beyond its runs."""

    def __init__(self, rooms: Rooms, claim: Claim, how: How, bench: Bench, whole: Sequence[Change]) -> None:
        self._rooms, self._claim, self._how, self._bench = rooms, claim, how, bench
        self.is_compared = any(_concerns(change, claim.test) for change in whole)
        self.audited: dict[str, Any] | None = None
        self.mutation: dict[str, Any] | None = None
        self.findings: list[Finding] = []

    def audit(self) -> list[TestRun]:
        """Replace the program by one that does nothing. The run that this begins with is as it is: it counts among the k."""
        claim, how, bench = self._claim, self._how, self._bench
        if not how.program:
            return []
        first: list[TestRun] = []
        key = [_RULES, "audit", bench.tree, command(how.pytest, how.args, claim.test.id), how.program]
        known = bench.shelf.get(key) if bench.shelf is not None else None
        if isinstance(known, dict):
            seen = Audited.from_dict(known)
        else:
            seen = examine(
                bench.room(), how.pytest, claim.test, program=how.program, args=how.args, modes=_MODES, timeout=how.timeout,
                first=first.append,
            )  # fmt: skip
            if bench.shelf is not None:
                bench.shelf.put(key, seen.to_dict())
        self.audited = seen.to_dict()
        found = [hole.finding for hole in seen.holes]
        if not self.is_compared:  # it was so before
            found = [finding.replace(level="note") for finding in found]
        self.findings += found
        return first if how.k > 1 else []

    def mutate(self, own: Sequence[TestRun], guard: Sequence[Finding]) -> None:
        """Put faults into the code. What is no longer seen because a check was rightly taken away is only told of."""
        claim, how, bench = self._claim, self._how, self._bench
        if not self.is_compared:
            return
        known = next((run for run in own if run.lines and run.outcome == "pass"), None)
        seen = mutate(
            self._rooms, how.pytest, claim.test, base=claim.base, commit=claim.commit, source=bench.source, n=how.faults, seed=how.seed,
            args=how.args, timeout=how.timeout, shelf=bench.shelf, room=bench.room, known=known,
        )  # fmt: skip
        self.mutation = seen.to_dict()
        found = seen.findings()
        if any(finding.level == "justified" and finding.path == claim.test.path for finding in guard):
            found = [finding.replace(level="note") for finding in found]
        self.findings += found


def _concerns(change: Change, test: Test) -> bool:
    """Whether a change makes a test say something else: in its own words, or in what it shares with others."""
    if not is_of_tests(change.path) or not change.path.endswith(".py"):
        return False
    if change.path != test.path:
        return not is_test_file(change.path)
    changed = changed_tests(change)
    return changed is None or test.name in changed
