"""The additional checks of a full receipt.

The audit asks whether the test notices a program that does nothing. Mutation asks whether it still catches the same
faults.
"""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.runners.choose import choose_runner
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.claim_runs import ClaimRunner
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.mutation import MutationReport, compare_versions
from mngr.tmr.verify.stub_audit import AuditResult, audit_test
from mngr.tmr.verify.text_checks import find_changed_tests
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest

_RULES_VERSION = 1  # increased when the same audit may end differently
_AUDIT_MODES = ("nop", "help")


def has_passed(test_runs: Sequence[TestRun]) -> bool:
    """True when the test passed in every run."""
    return all(run.outcome == "pass" for run in test_runs)


class FullChecks:
    """The checks of one claim beyond its normal runs."""

    def __init__(
        self,
        clean_rooms: CleanRoomPool,
        request: VerifyRequest,
        options: VerifyOptions,
        runner: ClaimRunner,
        changes: Sequence[Change],
    ) -> None:
        self._rooms, self._claim, self._options, self._runner = clean_rooms, request, options, runner
        self.is_test_changed = any(_is_test_affected(change, request.test) for change in changes)
        self.audit: AuditResult | None = None
        self.mutation: MutationReport | None = None
        self.findings: list[Finding] = []

    def run_audit(self) -> list[TestRun]:
        """Audit the test with stubs of its program.

        Return the audit's first, unchanged run, which counts as one of the k.
        """
        request, options, runner = self._claim, self._options, self._runner
        if not options.program:
            return []
        first_runs: list[TestRun] = []
        key = [
            _RULES_VERSION,
            "audit",
            runner.tree,
            choose_runner(options).command(request.test.id),
            options.program,
        ]
        result = runner.cache.find_struct(key, AuditResult) if runner.cache is not None else None
        if result is None:
            result = audit_test(
                runner.get_room(),
                options,
                request.test,
                program=options.program,
                modes=_AUDIT_MODES,
                on_first_run=first_runs.append,
            )
            if runner.cache is not None:
                runner.cache.put(key, result)
        self.audit = result
        findings = [hole.finding for hole in result.holes]
        if not self.is_test_changed:  # the edit did not cause these gaps
            findings = [finding.replace(level="note") for finding in findings]
        self.findings += findings
        return first_runs if options.runs > 1 else []

    def run_mutation(self, test_runs: Sequence[TestRun], weakenings: Sequence[Finding]) -> None:
        """Compare the old and new test on mutants. A newly missed mutant is a note if a removed check was justified."""
        request, options, runner = self._claim, self._options, self._runner
        if not self.is_test_changed:
            return
        passing_run = next((run for run in test_runs if run.lines and run.outcome == "pass"), None)
        report = compare_versions(
            self._rooms, request, options, cache=runner.cache, get_room=runner.get_room, passing_run=passing_run
        )
        self.mutation = report
        findings = report.findings()
        if any(finding.level == "justified" and finding.path == request.test.path for finding in weakenings):
            findings = [finding.replace(level="note") for finding in findings]
        self.findings += findings


def _is_test_affected(change: Change, test: TestFunction) -> bool:
    """True when the change alters the test itself or code that it shares with other tests."""
    if not is_test_code(change.path) or not change.path.endswith(".py"):
        return False
    if change.path != test.path:
        return not is_test_file(change.path)
    changed = find_changed_tests(change)
    return changed is None or test.name in changed
