"""`tutorial sync`: an agent writes the missing tests; mngr checks its work and reminds it of open problems."""

from __future__ import annotations

import os
import re
import shlex
import tempfile

from mngr.agents.context import Context
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.time_format import parse_duration
from mngr.tutorial.blocks import ReadProblem, read_script
from mngr.tutorial.check_citations import TutorialFinding, TutorialReport, check_tutorial, compare_with_tests
from mngr.tutorial.citations import read_tests
from mngr.tutorial.paths import TutorialPaths
from mngr.tutorial.writing import test_update_prompt
from mngr.tutorial.writing.writing_agent import (
    MECHANIC,
    WriterAgent,
    WriterRequest,
    check_clean,
    get_project_prefix,
    read_committed,
)

_MAX_PYTEST_LINES = 15  # lines of pytest's output that the agent gets
_IMPORT_ERROR = re.compile(r"^(?P<place>\S.*?\.py:\d+): in <module>$|^E +(?P<why>.+)$|^_{3,} ERROR ", re.MULTILINE)


class SyncResult(Struct):
    """The outcome of a sync."""

    agent: str | None  # None when nothing was missing
    branch: str | None
    commit: str | None
    rounds: int
    rows: list[dict[str, object]]  # each block with its tests
    problems: list[str]  # problems that remain

    @property
    def is_complete(self) -> bool:
        """True when no problem remains."""
        return not self.problems


def sync_tests(ctx: Context, tutorial_paths: TutorialPaths, request: WriterRequest) -> SyncResult:
    """Let an agent update the tests on its own branch. Raise MngrError when that is impossible."""
    report = check_tutorial(tutorial_paths)
    script_problems = [_format_problem(problem) for problem in report.script.problems]
    findings = [finding for finding in report.findings if _is_fixable_in_tests(report, finding)]
    if not findings:
        return SyncResult(
            agent=None, branch=None, commit=None, rounds=0, rows=_list_report_rows(report), problems=script_problems
        )
    check_clean(ctx, tutorial_paths, tutorial_paths.file, tutorial_paths.tests)
    if request.agent == MECHANIC:
        _check_mechanic(tutorial_paths, findings)
    with WriterAgent(ctx, request, "sync", _build_prompt(ctx, tutorial_paths, request, report)) as worker:
        result = _work_in_turns(ctx, worker, tutorial_paths, request, report)
    return result.replace(problems=[*result.problems, *script_problems])


def _check_mechanic(tutorial_paths: TutorialPaths, findings: list[TutorialFinding]) -> None:
    """Raise MngrError when the rule-based agent cannot fix any of the findings."""
    if tutorial_paths.tests.endswith(".py"):
        raise MngrError(
            "the agent kind mechanic writes a new file, so it needs a directory of tests",
            "name a directory: mngr tutorial sync tutorial.sh tests/e2e --agent mechanic",
        )
    if not any(finding.kind == "gap" for finding in findings):
        raise MngrError(
            "the agent kind mechanic only writes tests for blocks without a test, and every block has one; "
            f"the remaining problem: {_format_problem(findings[0])}",
            "update stale citations: mngr tutorial check --fix",
        )


def _build_prompt(ctx: Context, tutorial_paths: TutorialPaths, request: WriterRequest, report: TutorialReport) -> str:
    """Return the first message of the agent."""
    tests = tutorial_paths.to_display_path(tutorial_paths.tests)
    text = test_update_prompt.build_prompt(report, tests, tutorial_paths.root, get_project_prefix(ctx, tutorial_paths))
    if request.agent == MECHANIC:
        text += "\n" + test_update_prompt.build_job(report, tests, get_run_settings(ctx, tutorial_paths))
    return text


def _work_in_turns(
    ctx: Context, worker: WriterAgent, tutorial_paths: TutorialPaths, request: WriterRequest, report: TutorialReport
) -> SyncResult:
    """Check the agent's work after each turn, and send reminders until no problem remains or all rounds are used."""
    reminder: str | None = None
    max_rounds = 1 if request.agent == MECHANIC else request.rounds  # It would do the same again in another round.
    for number in range(1, max_rounds + 1):
        worker.finish_turn(reminder)
        pulled = worker.fleet.pull(worker.name)
        after = _check_commit(ctx, tutorial_paths, pulled.commit) if pulled.commit else report
        problems = _list_problems(worker, tutorial_paths, after)
        if pulled.commit:
            problems += worker.list_unexpected_changes(tutorial_paths, pulled.commit, tutorial_paths.tests)
        if not pulled.commits:
            message = f"{worker.name} has committed nothing; read its conversation: mngr transcript {worker.name}"
            problems = [message, *problems]
        ctx.note(f"round {number}: problems that remain: {len(problems)}" if problems else f"round {number}: done")
        if not problems:
            break
        reminder = test_update_prompt.build_reminder(problems)
    return SyncResult(
        agent=worker.name,
        branch=pulled.branch,
        commit=pulled.commit,
        rounds=number,
        rows=_list_report_rows(after),
        problems=problems,
    )


def _list_problems(worker: WriterAgent, tutorial_paths: TutorialPaths, report: TutorialReport) -> list[str]:
    """Return what the check and pytest report about the agent's work. Its tests are only collected, on its own host."""
    reasons = _read_mechanic_reasons(worker)
    problems = [
        _format_problem(finding) + reasons.get(finding.block or "", "") + _format_diff(finding)
        for finding in report.findings
        if _is_fixable_in_tests(report, finding)
    ]
    pytest = worker.fleet.context.settings.get("project.pytest") or "python3 -m pytest"
    command = f"{pytest} --collect-only -q {shlex.quote(tutorial_paths.to_display_path(tutorial_paths.tests))}"
    directory = get_project_prefix(worker.fleet.context, tutorial_paths) or "."
    argv = ["sh", "-c", f'cd "$1" && {command}', "sh", directory]
    outcome = worker.fleet.exec([worker.name], argv)[0]
    code = outcome.extra.get("exit_code")
    if code not in (0, None):
        output = str(outcome.extra.get("stdout") or "") + str(outcome.extra.get("stderr") or "")
        tail = f"{command} exits with {code}:\n" + "\n".join(output.strip().splitlines()[-_MAX_PYTEST_LINES:])
        problems += list_import_errors(output) or [tail]
    elif code is None:
        problems.append(f"cannot run {command}: {outcome.error}")
    status = worker.fleet.exec([worker.name], ["git", "status", "--porcelain", "--", "*.py"])[0]
    rows = str(status.extra.get("stdout") or "").splitlines()
    return problems + [f"{row[3:]} has uncommitted changes" for row in rows]


def list_import_errors(output: str) -> list[str]:
    """Return the location and reason for each file that pytest could not import."""
    errors: list[str] = []
    location = ""
    for match in _IMPORT_ERROR.finditer(output):
        if match["why"] and location:
            errors.append(f"{location}: cannot be imported: {match['why']}")
        location = match["place"] or ""
    return errors


def _read_mechanic_reasons(worker: WriterAgent) -> dict[str, str]:
    """Return for each block why the rule-based agent wrote no test for it."""
    observations = [entry for entry in worker.read_transcript() if entry.tool == "observe"]
    return {
        str(entry.input.get("block")): f"; {entry.output}" for entry in observations if isinstance(entry.input, dict)
    }


def _format_diff(finding: TutorialFinding) -> str:
    return "\n" + finding.diff.rstrip("\n") if finding.diff else ""


def _is_fixable_in_tests(report: TutorialReport, finding: TutorialFinding) -> bool:
    """True when a change of the tests can fix the finding. The script itself must not change."""
    return not finding.is_warning and (finding.path != report.script.path or finding.kind == "gap")


def _format_problem(problem: TutorialFinding | ReadProblem) -> str:
    kind = getattr(problem, "kind", "unreadable")
    return f"{problem.path}:{problem.line}: {kind}: {problem.message}"


def _check_commit(ctx: Context, tutorial_paths: TutorialPaths, commit: str) -> TutorialReport:
    """Check the local script against the tests in a commit. mngr runs nothing of the commit."""
    with tempfile.TemporaryDirectory(prefix="mngr-sync-") as directory:
        tests_dir = os.path.join(directory, "tests")
        os.makedirs(tests_dir)
        for path, text in read_committed(ctx, tutorial_paths, commit, tutorial_paths.tests, ".py").items():
            target = os.path.join(tests_dir, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(text)
        script = read_script(tutorial_paths.file, tutorial_paths.to_display_path(tutorial_paths.file))
        return compare_with_tests(script, read_tests(tests_dir, lambda path: os.path.relpath(path, tests_dir)))


def get_run_settings(ctx: Context, tutorial_paths: TutorialPaths) -> dict[str, object]:
    """Return how blocks are run: the shell of the script, the timeout, and the project's place in its repository."""
    with open(tutorial_paths.file, encoding="utf-8", errors="replace") as file:
        shell = "bash" if "bash" in file.readline() else "sh"
    timeout = ctx.settings.get("tutorial.timeout")
    seconds = parse_duration(str(timeout)) if timeout else None
    return {"shell": shell, "timeout": seconds, "place": get_project_prefix(ctx, tutorial_paths)}


def _list_report_rows(report: TutorialReport) -> list[dict[str, object]]:
    return [block.to_dict() for block in report.blocks]
