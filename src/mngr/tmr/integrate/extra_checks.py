"""The further checks of an integration: full receipts, the counts of tests, lint and the tutorial check."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Mapping, Sequence

from mngr.api import Fleet
from mngr.host.protocol import Host
from mngr.mapreduce.journal.journal_file import Journal
from mngr.mapreduce.journal.journal_rows import CheckedRow, SettledRow
from mngr.mapreduce.journal.replay import Replay
from mngr.mapreduce.journal.run_state import TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import Integration, SuiteCounts
from mngr.tmr.clean_room_and_agent_options import open_clean_rooms
from mngr.tmr.cleanroom.clean_room import CleanRoom
from mngr.tmr.commits.trees import read_files
from mngr.tmr.integrate.bisect import list_claimed_tests
from mngr.tmr.integrate.suite import WHOLE_SUITE, Suite
from mngr.tmr.prepare.prepare import prepare_run
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tmr.recipe import TmrRecipe
from mngr.tmr.run_plan import load_plan
from mngr.tmr.verify.receipt import find_receipt, find_verdict
from mngr.tutorial.blocks import parse_script
from mngr.tutorial.check_citations import compare_with_tests
from mngr.tutorial.citations import Citations, parse_tests

_STABILITY_RUNS = 5  # runs that show whether a test is repaired, if no change claims that
TreeCheck = Callable[[str, CleanRoom], tuple[bool, str]]
_LINT_TIMEOUT = 1800.0
_MAX_OUTPUT = 2000  # characters of a check's output
_MAX_FILE_BYTES = 1 << 22  # larger files are not read


def make_full_receipts(fleet: Fleet, run: RunDir, report: Callable[[str], None]) -> None:
    """Make the receipts and journal the results: a claim that fails is no longer confirmed. Raise MngrError."""
    plan = load_plan(run).replace(verify="full")
    local = fleet.context.local_host
    with Journal(run.journal) as journal:
        replay = Replay(journal.rows)
        tasks = [task for task in replay.state.list_in_state("settled") if _has_quick_receipt(task)]
        if not tasks:
            return
        with contextlib.closing(open_clean_rooms(fleet, run, plan)) as clean_rooms:
            prepared = prepare_run(local, run, plan, clean_rooms, journal, lambda row: None)
            recipe = TmrRecipe(local, run, plan, prepared, clean_rooms, {})
            with concurrent.futures.ThreadPoolExecutor(clean_rooms.max_rooms) as pool:
                for task, receipt in zip(tasks, pool.map(recipe.check, tasks), strict=True):
                    slug = task.task.slug
                    replay.add(journal.write(CheckedRow(slug=slug, check=receipt)))
                    outcome, reason = recipe.decide_outcome(replay.state.tasks[slug])
                    journal.write(SettledRow(slug=slug, outcome=outcome, reason=reason))
                    report(f"{slug}: {find_verdict(receipt)} after full verification")


def _has_quick_receipt(task: TaskState) -> bool:
    receipt = find_receipt(task.check)
    if receipt is None or task.commit == task.base:
        return False
    return receipt.verdict == "confirmed" and receipt.level == "quick"


def count_tests(
    suite: Suite, integration: Integration, baseline: Mapping[str, str], changes: Sequence[Change]
) -> Integration:
    """Return the record with the numbers of tests, and with the tests that the branch repaired.

    `baseline` holds the verdict on each test before any change. The record stays as it is when the results of
    single tests are unknown.
    """
    if not integration.commits:
        return integration
    outcomes = suite.run_all(integration.head).outcomes
    if WHOLE_SUITE in outcomes:
        return integration
    passed = {test for test, outcome in outcomes.items() if outcome == "pass"}
    skipped = [test for test, outcome in outcomes.items() if outcome == "skip"]
    repaired = {test for test in passed if baseline.get(test) == "fail"}
    flaky = _find_flaky(suite, integration, repaired - _list_claimed(integration, changes))
    counts = SuiteCounts(all=len(outcomes), passed=len(passed), skipped=len(skipped), green=sorted(repaired - flaky))
    return integration.replace(tests=counts, flaky=sorted({*integration.flaky, *flaky}))


def _list_claimed(integration: Integration, changes: Sequence[Change]) -> set[str]:
    """Return the tests that the changes in the branch claim to repair."""
    names = {name for commit in integration.commits for name in commit.changes}
    return {test for change in changes if change.id in names for test in list_claimed_tests(change)}


def _find_flaky(suite: Suite, integration: Integration, tests: set[str]) -> set[str]:
    """Return the tests that do not always fail below the branch and always pass on it."""
    always_pass = suite.list_stable(integration.head, tests, red=False, times=_STABILITY_RUNS)
    return tests - suite.list_stable(integration.onto, always_pass, red=True, times=_STABILITY_RUNS)


def make_lint_check(command: str) -> TreeCheck:
    """Return a check that runs the project's lint command in the clean room."""

    def check(commit: str, clean_room: CleanRoom) -> tuple[bool, str]:
        outcome = clean_room.run(["sh", "-c", command], timeout=_LINT_TIMEOUT)
        output = (outcome.out + outcome.err).strip()[-_MAX_OUTPUT:]
        return outcome.code == 0, output if outcome.code else ""

    return check


def make_tutorial_check(local: Host, repo: str, file: str, tests: str) -> TreeCheck:
    """Return a check that does what `mngr tutorial check` does for a commit. It runs nothing."""

    def check(commit: str, clean_room: CleanRoom) -> tuple[bool, str]:
        files = read_files(local, repo, commit, [file, tests], _MAX_FILE_BYTES)
        script = files.pop(file, b"").decode("utf-8", "replace")
        parsed = [parse_tests(data, path) for path, data in files.items() if is_test_file(path)]
        citations = Citations(
            citations=[citation for file_citations in parsed for citation in file_citations.citations],
            tests=[test for file_citations in parsed for test in file_citations.tests],
            problems=[problem for file_citations in parsed for problem in file_citations.problems],
        )
        findings = [
            finding
            for finding in compare_with_tests(parse_script(script, file), citations).findings
            if not finding.is_warning
        ]
        output = "\n".join(f"{finding.path}:{finding.line}: {finding.message}" for finding in findings)
        return not findings, output[:_MAX_OUTPUT]

    return check
