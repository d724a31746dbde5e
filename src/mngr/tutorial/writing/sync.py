"""`tutorial sync`: an agent writes the tests that are missing; what it left is checked by us, and it is told what is still wrong."""

from __future__ import annotations

import os
import re
import shlex
import tempfile

from mngr.agents.context import Context
from mngr.base.clock import parse_duration
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.tutorial.blocks import ReadProblem, read_script
from mngr.tutorial.check import TutorialFinding, TutorialReport, check_tutorial, compare_with_tests
from mngr.tutorial.citations import read_tests
from mngr.tutorial.paths import TutorialPaths
from mngr.tutorial.writing import prompt
from mngr.tutorial.writing.worker import (
    MECHANIC,
    WriterAgent,
    WriterRequest,
    check_clean,
    get_project_prefix,
    read_committed,
)

_MAX_PYTEST_LINES = 15  # lines of what pytest said that an agent is told
_IMPORT_ERROR = re.compile(r"^(?P<place>\S.*?\.py:\d+): in <module>$|^E +(?P<why>.+)$|^_{3,} ERROR ", re.MULTILINE)


class SyncResult(Struct):
    """What became of it."""

    agent: str | None  # None when there was nothing to do
    branch: str | None
    commit: str | None
    rounds: int
    rows: list[dict[str, object]]  # each block and its tests
    problems: list[str]  # what is still wrong

    @property
    def is_complete(self) -> bool:
        """Whether the work can be taken as it is."""
        return not self.problems


def sync_tests(ctx: Context, places: TutorialPaths, wish: WriterRequest) -> SyncResult:
    """Have an agent bring the tests up to date, on a branch of its own; raises MngrError."""
    report = check_tutorial(places)
    unread = [_format_problem(problem) for problem in report.script.problems]
    wrong = [finding for finding in report.findings if _is_fixable_in_tests(report, finding)]
    if not wrong:
        return SyncResult(
            agent=None, branch=None, commit=None, rounds=0, rows=_list_report_rows(report), problems=unread
        )
    check_clean(ctx, places, places.file, places.tests)
    if wish.agent == MECHANIC:
        _check_mechanic(places, wrong)
    with WriterAgent(ctx, wish, "sync") as worker:
        synced = _work_in_turns(ctx, worker, places, wish, report)
    return synced.replace(problems=[*synced.problems, *unread])


def _check_mechanic(places: TutorialPaths, wrong: list[TutorialFinding]) -> None:
    """MngrError when there is nothing that it can do."""
    if places.tests.endswith(".py"):
        raise MngrError("the mechanic writes a file of its own", "name the directory of the tests")
    if not any(finding.kind == "gap" for finding in wrong):
        raise MngrError(
            f"the mechanic writes tests for blocks that have none, and there is no such block; what is wrong: {_format_problem(wrong[0])}",
            "bring stale citations up to date with: mngr tutorial check --fix",
        )


def _work_in_turns(
    ctx: Context, worker: WriterAgent, places: TutorialPaths, wish: WriterRequest, report: TutorialReport
) -> SyncResult:
    """Tell it, see what it did, tell it what is still wrong."""
    tests = places.to_display_path(places.tests)
    text = prompt.build_prompt(report, tests, places.root, get_project_prefix(ctx, places))
    if wish.agent == MECHANIC:
        text += "\n" + prompt.build_job(report, tests, get_run_settings(ctx, places))
    most = 1 if wish.agent == MECHANIC else wish.rounds  # it would do the same again
    for number in range(1, most + 1):
        worker.send_and_wait(text)
        pulled = worker.fleet.pull(worker.name)
        after = _check_commit(ctx, places, pulled.commit) if pulled.commit else report
        problems = _list_problems(worker, places, after)
        if pulled.commit:
            problems += worker.list_unexpected_changes(places, pulled.commit, places.tests)
        if not pulled.commits:
            said = f"{worker.name} has committed nothing; what it said: mngr transcript {worker.name}"
            problems = [said, *problems]
        ctx.note(f"round {number}: {len(problems)} things are still wrong" if problems else f"round {number}: done")
        if not problems:
            break
        text = prompt.build_reminder(problems)
    return SyncResult(
        agent=worker.name,
        branch=pulled.branch,
        commit=pulled.commit,
        rounds=number,
        rows=_list_report_rows(after),
        problems=problems,
    )


def _list_problems(worker: WriterAgent, places: TutorialPaths, report: TutorialReport) -> list[str]:
    """What the check and pytest have to say about the agent's work; its tests are only loaded where it lives."""
    why = _read_mechanic_reasons(worker)
    found = [
        _format_problem(finding) + why.get(finding.block or "", "") + _format_diff(finding)
        for finding in report.findings
        if _is_fixable_in_tests(report, finding)
    ]
    pytest = worker.fleet.context.settings.get("project.pytest") or "python3 -m pytest"
    words = f"{pytest} --collect-only -q {shlex.quote(places.to_display_path(places.tests))}"
    place = get_project_prefix(worker.fleet.context, places) or "."
    argv = ["sh", "-c", f'cd "$1" && {words}', "sh", place]
    outcome = worker.fleet.exec([worker.name], argv)[0]
    code = outcome.extra.get("exit_code")
    if code not in (0, None):
        said = str(outcome.extra.get("stdout") or "") + str(outcome.extra.get("stderr") or "")
        tail = f"{words} ends with {code}:\n" + "\n".join(said.strip().splitlines()[-_MAX_PYTEST_LINES:])
        found += list_import_errors(said) or [tail]
    elif code is None:
        found.append(f"{words} could not be run: {outcome.error}")
    left = worker.fleet.exec([worker.name], ["git", "status", "--porcelain", "--", "*.py"])[0]
    rows = str(left.extra.get("stdout") or "").splitlines()
    return found + [f"{row[3:]} has changes that are not committed" for row in rows]


def list_import_errors(said: str) -> list[str]:
    """The place and the reason of each file that pytest could not import, from what it said."""
    found: list[str] = []
    place = ""
    for match in _IMPORT_ERROR.finditer(said):
        if match["why"] and place:
            found.append(f"{place}: does not import: {match['why']}")
        place = match["place"] or ""
    return found


def _read_mechanic_reasons(worker: WriterAgent) -> dict[str, str]:
    """By block, why the mechanic made no test for it."""
    rows = [
        row for row in worker.read_transcript() if row.get("tool") == "observe" and isinstance(row.get("input"), dict)
    ]
    return {str(row["input"].get("block")): f"; {row.get('output')}" for row in rows}


def _format_diff(finding: TutorialFinding) -> str:
    return "\n" + finding.diff.rstrip("\n") if finding.diff else ""


def _is_fixable_in_tests(report: TutorialReport, finding: TutorialFinding) -> bool:
    """Whether it can be mended in the tests: the script is the contract."""
    return not finding.is_warning and (finding.path != report.script.path or finding.kind == "gap")


def _format_problem(what: TutorialFinding | ReadProblem) -> str:
    kind = getattr(what, "kind", "unreadable")
    return f"{what.path}:{what.line}: {kind}: {what.message}"


def _check_commit(ctx: Context, places: TutorialPaths, commit: str) -> TutorialReport:
    """The check on what was committed: the script as it is here, the tests as the agent left them. Nothing of it is run."""
    with tempfile.TemporaryDirectory(prefix="mngr-sync-") as place:
        inside = os.path.join(place, "tests")
        os.makedirs(inside)
        for path, text in read_committed(ctx, places, commit, places.tests, ".py").items():
            target = os.path.join(inside, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(text)
        script = read_script(places.file, places.to_display_path(places.file))
        return compare_with_tests(script, read_tests(inside, lambda path: os.path.relpath(path, inside)))


def get_run_settings(ctx: Context, places: TutorialPaths) -> dict[str, object]:
    """What blocks are run by: the shell that the script is written for, and for how long."""
    with open(places.file, encoding="utf-8", errors="replace") as file:
        shell = "bash" if "bash" in file.readline() else "sh"
    limit = ctx.settings.get("tutorial.timeout")
    seconds = parse_duration(str(limit)) if limit else None
    return {"shell": shell, "timeout": seconds, "place": get_project_prefix(ctx, places)}


def _list_report_rows(report: TutorialReport) -> list[dict[str, object]]:
    return [one.to_dict() for one in report.blocks]
