"""The facts about the claim of a task, and about the receipt for it."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base.model import Struct
from mngr.tmr.finding import LEVELS, Finding
from mngr.tmr.verify.receipt import AffectedTestResult, Receipt, RunResult
from mngr.web.report.report_data import ReportTask

MAX_ROWS = 200  # The most rows of one kind.


class TestResults(Struct):
    """The runs of one test, and the first run that did not pass."""

    __test__ = False  # pytest must not collect this class.

    test: str
    results: Sequence[RunResult]
    first_failure: RunResult | None


class ReceiptCard(Struct):
    """Everything that mngr saw when it re-ran the claim of a task."""

    receipt: Receipt
    runs: TestResults
    affected_tests: list[TestResults]
    findings: list[Finding]
    clean_room: dict[str, str]  # How mngr ran the tests, so that anybody can repeat it.


def build_receipt_card(task: ReportTask) -> ReceiptCard | None:
    """Return the receipt of a task, or None if there is none or if it is damaged."""
    receipt = task.receipt
    if receipt is None:
        return None
    return ReceiptCard(
        receipt=receipt,
        runs=_build_results(receipt.test, receipt.results),
        affected_tests=_group_by_test(receipt.affected_tests),
        findings=sort_findings(task.findings),
        clean_room=_list_clean_room_facts(receipt),
    )


def explain_missing_receipt(task: ReportTask) -> str:
    """Return why a task has no receipt."""
    if task.state.check is not None:
        return "The receipt is damaged. See the journal of the run."
    if not task.is_over:
        return "There is no receipt yet."
    return "There is no receipt, because the agent does not claim that the test passes."


def sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return each finding once, the worst first."""
    rank = {level: index for index, level in enumerate(LEVELS)}
    return sorted(dict.fromkeys(findings), key=lambda finding: rank.get(finding.level, len(rank)))


def _build_results(test: str, results: Sequence[RunResult]) -> TestResults:
    failed = [result for result in results if result.outcome != "pass"]
    return TestResults(test=test, results=results, first_failure=failed[0] if failed else None)


def _group_by_test(results: Sequence[AffectedTestResult]) -> list[TestResults]:
    by_test: dict[str, list[RunResult]] = {}
    for result in results[: 10 * MAX_ROWS]:
        by_test.setdefault(result.test, []).append(result)
    return [_build_results(test, runs) for test, runs in by_test.items()]


def _list_clean_room_facts(receipt: Receipt) -> dict[str, str]:
    facts: dict[str, object] = {
        "isolation": receipt.isolation,
        "level": receipt.level,
        "commit": receipt.commit,
        "base": receipt.base,
        "tree": receipt.tree,
        "command": " ".join(receipt.command),
        "seed": receipt.seed,
        **{f"imported from: {name}": path for name, path in receipt.imported_from.items()},
        **{f"environment: {name}": value for name, value in receipt.environment.items()},
        **{f"hashes: {name}": value for name, value in receipt.hashes.items()},
    }
    return {name: "" if value is None else str(value) for name, value in facts.items() if value != ""}
