"""Receipts: the record of what mngr saw when it re-ran a claim in a clean room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mngr.base.json_structs import decode
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, find_text
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.code_location_check import describe_foreign_code, map_locations
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.claim import ClaimedChange
from mngr.tmr.verify.expected_reports import find_missing_ids, find_wrong_report
from mngr.tmr.verify.experiments.experiment import Experiment
from mngr.tmr.verify.red_green import RedGreenProof

VERDICTS = ("confirmed", "refuted", "flaky", "unverified")
NOT_RUN = "mngr could not run the test"
_MAX_TEXT = 2_000  # characters of a failure's text


class RunResult(Struct):
    """How one run of a test ended."""

    outcome: str
    seconds: float = 0.0
    cpu: float = 0.0
    exit_code: int = 0
    why: str = ""  # one line for people, unless it passed
    text: str = ""  # the end of pytest's explanation of the first failure
    reruns: int = 0  # attempts that a plugin repeated
    missing: list[str] = []  # node ids that were collected and did not run
    left: int = 0  # processes that it left running


class AffectedTestResult(RunResult):
    """How one run of an affected test ended."""

    test: str


class VerificationInputs(Struct):
    """Everything that is needed to repeat a verification, except the commits and the repository."""

    test: TestFunction
    affected_tests: list[TestFunction] = []
    is_shared: bool = False
    is_one_of_many: bool = False
    claimed_changes: list[ClaimedChange] | None = None  # None: no agent claims anything
    pytest: list[str]
    args: list[str] = []
    timeout: float
    program: str | None = None


class Receipt(Struct):
    """The record of what mngr saw when it ran the claimed test."""

    v: int = 1
    test: str
    verdict: str  # confirmed | refuted | flaky | unverified
    reason: str  # a sentence, for every verdict
    commit: str
    base: str = ""
    tree: str = ""
    level: str = "quick"  # quick | full
    command: list[str]
    runs: int  # how often the test is run
    results: list[RunResult] = []  # of each run of the test, in order
    affected_tests: list[AffectedTestResult] = []
    rate: float | None = None  # the share of failed runs of a flaky test
    imported_from: dict[str, str] = {}
    policy: list[Finding] = []  # about the touched files
    guard: list[Finding] = []  # about weakened tests, and code that looks for tests
    findings: list[Finding] = []  # all others: of the clean room, proofs and experiments
    proofs: list[RedGreenProof] = []  # one for each fix of the implementation
    experiments: list[Experiment] = []  # each with its outcome, including those that were not made
    isolation: str = "none: mngr ran no test"  # the isolation of the clean room, or `none: REASON`
    environment: dict[str, str] = {}
    hashes: dict[str, str] = {}  # hashes of tree, command, environment, transcript and recording
    rerun: VerificationInputs | None = None  # None for a test that was not run again
    seed: int = 0
    seconds: float = 0.0  # total time of all runs

    @property
    def all_findings(self) -> list[Finding]:
        """All findings, from every check."""
        return [*self.policy, *self.guard, *self.findings]


def list_experiments(blank: Receipt) -> list[Experiment]:
    """Return the rows of all experiments. `blank` has the rows of those that used trials, and the other results."""
    return [
        *blank.experiments,
        _summarize_red_green(blank.proofs),
    ]


def _summarize_red_green(proofs: Sequence[RedGreenProof]) -> Experiment:
    """Return whether the test fails without each fix of the implementation."""
    if not proofs:
        return Experiment(name="red_green", outcome="not_examined", reason="the claim has no fix of the implementation")
    fixes = sum(len(proof.fixes) for proof in proofs)
    unclear = [proof for proof in proofs if proof.is_needed is None]
    failed = [proof for proof in proofs if proof.is_needed is False]
    if failed:
        outcome = "failed"
        reason = failed[0].reason or f"the test also passes without {_name_fixes(failed[0])}"
    elif unclear:
        outcome = "unclear"
        reason = f"mngr could not revert {_name_fixes(unclear[0])}: {unclear[0].reason}"
    else:
        outcome = "passed"
        reason = f"the test fails without {'the fix' if fixes == 1 else f'each of {fixes} fixes'}"
        if len(proofs) == 1 and fixes > 1:
            reason = f"the test fails without the {fixes} fixes together"
    return Experiment(
        name="red_green",
        outcome=outcome,
        reason=reason,
        trials=sum(proof.trials for proof in proofs),
        seconds=round(sum(proof.seconds for proof in proofs), 3),
    )


def _name_fixes(proof: RedGreenProof) -> str:
    return f"the fix {proof.fixes[0][:10]}" if len(proof.fixes) == 1 else f"{len(proof.fixes)} fixes"


def find_receipt(check: object) -> Receipt | None:
    """Return the receipt that the journal holds as a task's check. Return None if there is none or it is damaged."""
    try:
        return decode(Receipt, check)
    except ValueError:
        return None


def find_all_findings(check: Mapping[str, object] | None) -> list[Finding]:
    """Return only the findings of the receipt that the journal holds as a task's check."""
    try:
        lists = [check.get(name) for name in ("policy", "guard", "findings")] if check else []
        return [decode(Finding, finding) for findings in lists if findings for finding in as_list(findings)]
    except ValueError:
        return []


def find_verdict(check: Mapping[str, object] | None) -> str | None:
    """Return only the verdict of the receipt that the journal holds as a task's check."""
    return None if check is None else find_text(check, "verdict")


def make_receipt(
    blank: Receipt,
    test_runs: Sequence[TestRun],
    affected_runs: Sequence[TestRun],
    tests: Sequence[TestFunction],
    program: str | None,
) -> Receipt:
    """Return the receipt from the runs of the test and of the affected tests. `blank` has the findings already.

    `tests` are the test and the affected tests, with the node ids that must report.
    """
    runs = [*test_runs, *affected_runs]
    expected = {test.id: test for test in tests}
    wrong_report = find_wrong_report(runs, expected)
    verdict, reason = decide_verdict(test_runs, affected_runs, _describe_wrong_code(runs, program), wrong_report)
    experiments = list_experiments(blank)
    if verdict in ("confirmed", "flaky"):
        doubt = next((row for row in experiments if row.prevents_confirmation), None)
        if doubt is not None:
            verdict = "unverified"
            reason = f"it passes, but the experiment {doubt.name} is {doubt.outcome}: {doubt.reason}"
        refused = [finding for finding in blank.all_findings if finding.level == "refuse"]
        if refused:
            verdict, reason = "refuted", f"it passes, but {_describe_refusals(refused)}"
    return blank.replace(
        verdict=verdict,
        reason=reason,
        experiments=experiments,
        results=[_summarize_run(run, expected) for run in test_runs],
        affected_tests=[
            AffectedTestResult(test=run.test, **_summarize_run(run, expected).to_dict()) for run in affected_runs
        ],
        rate=_compute_failure_rate(test_runs) if verdict == "flaky" else None,
        imported_from=_map_imports(runs),
        isolation=runs[0].isolation if runs else blank.isolation,
        environment=runs[0].environment if runs else {},
        seconds=round(sum(run.seconds for run in runs), 3),
    )


def decide_verdict(
    test_runs: Sequence[TestRun], affected_runs: Sequence[TestRun], wrong_code: str = "", wrong_report: str = ""
) -> tuple[str, str]:
    """Return (verdict, reason) from the runs of the test and of the affected tests."""
    if wrong_code:
        return "unverified", f"wrong code under test: {wrong_code}"
    count = len(test_runs)
    failed_runs = [run for run in test_runs if run.outcome != "pass"]
    passed = count - len(failed_runs)
    if failed_runs:
        first_failed = failed_runs[0]
        failure = _describe_failure(first_failed)
        if passed:
            return "flaky", f"it passed {passed} of {count} times; first failure ({first_failed.outcome}): {failure}"
        return "refuted", f"{_describe_outcome(first_failed)} {_format_times(count)}: {failure}"
    failed_affected = next((run for run in affected_runs if run.outcome != "pass"), None)
    if failed_affected is not None:
        failure = _describe_failure(failed_affected)
        return "refuted", f"the affected test {failed_affected.test} does not pass: {failure}"
    if wrong_report:
        return "unverified", f"it passes, but the reports of its runs are wrong: {wrong_report}"
    reruns = sum(run.reruns for run in test_runs)
    if reruns:
        return "flaky", f"it passed only because a pytest plugin repeated it (repetitions: {reruns})"
    suffix = _describe_affected_tests(len({run.test for run in affected_runs}))
    return "confirmed", f"it passed {passed} of {count} times{suffix}"


def _describe_affected_tests(count: int) -> str:
    if not count:
        return ""
    return ", and so did one affected test" if count == 1 else f", and so did {count} affected tests"


def _describe_refusals(refused: Sequence[Finding]) -> str:
    """Return the place and the sentence of the first finding, and the number of the others."""
    first = refused[0]
    location = f"{first.path}:{first.line}" if first.line else first.path
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return f"{location}: {first.what}{more}"


def _compute_failure_rate(test_runs: Sequence[TestRun]) -> float | None:
    """Return the share of runs that failed or passed only after a rerun, or None without runs."""
    if not test_runs:
        return None
    failed = sum(run.outcome != "pass" or bool(run.reruns) for run in test_runs)
    return round(failed / len(test_runs), 3)


def _map_imports(runs: Sequence[TestRun]) -> dict[str, str]:
    """Return the file of each package and program that the runs used. An import counts more than a location."""
    files: dict[str, str] = {}
    for run in runs:
        files |= map_locations(run.resolved)
    for run in runs:
        files |= run.imported_from
    return dict(sorted(files.items()))


def _describe_wrong_code(runs: Sequence[TestRun], program: str | None) -> str:
    for run in runs:
        problems = [*run.wrong_code, *describe_foreign_code(run.resolved, program)]
        if problems:
            return problems[0]
    return ""


def _summarize_run(run: TestRun, tests: Mapping[str, TestFunction]) -> RunResult:
    return RunResult(
        outcome=run.outcome,
        seconds=round(run.seconds, 3),
        cpu=round(run.cpu, 3),
        exit_code=run.exit_code,
        why="" if run.outcome == "pass" else _describe_failure(run),
        text=run.failures[0].text[-_MAX_TEXT:] if run.failures else "",
        reruns=run.reruns,
        missing=find_missing_ids(run, tests[run.test]) if run.test in tests else run.missing,
        left=run.left,
    )


def _describe_failure(run: TestRun) -> str:
    return run.why or run.outcome


def _describe_outcome(run: TestRun) -> str:
    return {"skip": "it was skipped", "timeout": "it did not finish", "crash": "it crashed"}.get(
        run.outcome, "it failed"
    )


def _format_times(count: int) -> str:
    return "when mngr ran it" if count == 1 else f"{count} of {count} times"
