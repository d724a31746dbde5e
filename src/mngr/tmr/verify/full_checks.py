"""A receipt in full: would the test notice a program that does nothing, and does it still see the faults that it saw before?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.test_run import TestFunction, TestRun, build_command
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.verify.audit import AuditResult, audit_test
from mngr.tmr.verify.claim_runs import ClaimRunner
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.mutation import compare_versions
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.text_checks import find_changed_tests

_RULES_VERSION = 1  # goes up when the same audit may now end otherwise
_AUDIT_MODES = ("nop", "help")


def has_passed(own: Sequence[TestRun]) -> bool:
    """Whether a test passed every time."""
    return all(run.outcome == "pass" for run in own)


class FullChecks:
    """What is done for one claim beyond its runs."""

    def __init__(
        self,
        rooms: CleanRoomPool,
        claim: VerifyRequest,
        how: VerifyOptions,
        bench: ClaimRunner,
        whole: Sequence[Change],
    ) -> None:
        self._rooms, self._claim, self._options, self._runner = rooms, claim, how, bench
        self.is_test_changed = any(_is_test_affected(change, claim.test) for change in whole)
        self.audited: dict[str, Any] | None = None
        self.mutation: dict[str, Any] | None = None
        self.findings: list[Finding] = []

    def run_audit(self) -> list[TestRun]:
        """Replace the program by one that does nothing. The run that this begins with is as it is: it counts among the k."""
        claim, how, bench = self._claim, self._options, self._runner
        if not how.program:
            return []
        first: list[TestRun] = []
        key = [
            _RULES_VERSION,
            "audit",
            bench.tree,
            build_command(how.pytest, how.args, claim.test.id),
            how.program,
        ]
        known = bench.cache.find(key) if bench.cache is not None else None
        if isinstance(known, dict):
            seen = AuditResult.from_dict(known)
        else:
            seen = audit_test(
                bench.get_room(), how.pytest, claim.test, program=how.program, args=how.args, modes=_AUDIT_MODES, timeout=how.timeout,
                first=first.append,
            )  # fmt: skip
            if bench.cache is not None:
                bench.cache.put(key, seen.to_dict())
        self.audited = seen.to_dict()
        found = [hole.finding for hole in seen.holes]
        if not self.is_test_changed:  # it was so before
            found = [finding.replace(level="note") for finding in found]
        self.findings += found
        return first if how.runs > 1 else []

    def run_mutation(self, own: Sequence[TestRun], guard: Sequence[Finding]) -> None:
        """Put faults into the code. What is no longer seen because a check was rightly taken away is only told of."""
        claim, how, bench = self._claim, self._options, self._runner
        if not self.is_test_changed:
            return
        known = next((run for run in own if run.lines and run.outcome == "pass"), None)
        seen = compare_versions(
            self._rooms, how.pytest, claim.test, base=claim.base, commit=claim.commit, source=bench.source, n=how.mutant_count, seed=how.seed,
            args=how.args, timeout=how.timeout, shelf=bench.cache, room=bench.get_room, known=known,
        )  # fmt: skip
        self.mutation = seen.to_dict()
        found = seen.findings()
        if any(finding.level == "justified" and finding.path == claim.test.path for finding in guard):
            found = [finding.replace(level="note") for finding in found]
        self.findings += found


def _is_test_affected(change: Change, test: TestFunction) -> bool:
    """Whether a change makes a test say something else: in its own words, or in what it shares with others."""
    if not is_test_code(change.path) or not change.path.endswith(".py"):
        return False
    if change.path != test.path:
        return not is_test_file(change.path)
    changed = find_changed_tests(change)
    return changed is None or test.name in changed
