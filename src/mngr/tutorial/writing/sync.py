"""`tutorial sync`: an agent writes the tests that are missing; what it left is checked by us, and it is told what is still wrong."""

from __future__ import annotations

import os
import re
import shlex
import tempfile

from mngr.agents.context import Context
from mngr.base.clock import parse_length
from mngr.base.errors import MngrError
from mngr.base.model import Record
from mngr.tutorial.blocks import Problem, read_script
from mngr.tutorial.check import Finding, Report, check, compare
from mngr.tutorial.citations import read_tests
from mngr.tutorial.locate import Places
from mngr.tutorial.writing import prompt
from mngr.tutorial.writing.worker import MECHANIC, Wish, Worker, check_clean, prefix, read_committed

_SHOWN = 15  # lines of what pytest said that an agent is told
_NO_IMPORT = re.compile(
    r"^(?P<place>\S.*?\.py:\d+): in <module>$|^E +(?P<why>.+)$|^_{3,} ERROR ", re.MULTILINE
)


class Synced(Record):
    """What became of it."""

    agent: str | None  # None when there was nothing to do
    branch: str | None
    commit: str | None
    rounds: int
    rows: list[dict[str, object]]  # each block and its tests
    problems: list[str]  # what is still wrong

    @property
    def is_good(self) -> bool:
        """Whether the work can be taken as it is."""
        return not self.problems


def sync(ctx: Context, places: Places, wish: Wish) -> Synced:
    """Have an agent bring the tests up to date, on a branch of its own; raises MngrError."""
    report = check(places)
    unread = [_said(problem) for problem in report.script.problems]
    wrong = [finding for finding in report.findings if _is_of_tests(report, finding)]
    if not wrong:
        return Synced(agent=None, branch=None, commit=None, rounds=0, rows=_rows(report), problems=unread)
    check_clean(ctx, places, places.file, places.tests)
    if wish.agent == MECHANIC:
        _check_mechanic(places, wrong)
    with Worker(ctx, wish, "sync") as worker:
        synced = _converse(ctx, worker, places, wish, report)
    return synced.replace(problems=[*synced.problems, *unread])


def _check_mechanic(places: Places, wrong: list[Finding]) -> None:
    """MngrError when there is nothing that it can do."""
    if places.tests.endswith(".py"):
        raise MngrError("the mechanic writes a file of its own", "name the directory of the tests")
    if not any(finding.kind == "gap" for finding in wrong):
        raise MngrError(
            f"the mechanic writes tests for blocks that have none, and there is no such block; what is wrong: {_said(wrong[0])}",
            "bring stale citations up to date with: mngr tutorial check --fix",
        )


def _converse(ctx: Context, worker: Worker, places: Places, wish: Wish, report: Report) -> Synced:
    """Tell it, see what it did, tell it what is still wrong."""
    tests = places.shown(places.tests)
    text = prompt.write(report, tests, places.root, prefix(ctx, places))
    if wish.agent == MECHANIC:
        text += "\n" + prompt.job(report, tests, how_to_try(ctx, places))
    most = 1 if wish.agent == MECHANIC else wish.rounds  # it would do the same again
    for number in range(1, most + 1):
        worker.tell(text)
        pulled = worker.fleet.pull(worker.name)
        after = _look(ctx, places, pulled.commit) if pulled.commit else report
        problems = _problems(worker, places, after)
        if pulled.commit:
            problems += worker.strays(places, pulled.commit, places.tests)
        if not pulled.commits:
            said = f"{worker.name} has committed nothing; what it said: mngr transcript {worker.name}"
            problems = [said, *problems]
        ctx.note(
            f"round {number}: {len(problems)} things are still wrong" if problems else f"round {number}: done"
        )
        if not problems:
            break
        text = prompt.again(problems)
    return Synced(
        agent=worker.name,
        branch=pulled.branch,
        commit=pulled.commit,
        rounds=number,
        rows=_rows(after),
        problems=problems,
    )


def _problems(worker: Worker, places: Places, report: Report) -> list[str]:
    """What the check and pytest have to say about the agent's work; its tests are only loaded where it lives."""
    why = _reasons(worker)
    found = [
        _said(finding) + why.get(finding.block or "", "") + _diff(finding)
        for finding in report.findings
        if _is_of_tests(report, finding)
    ]
    pytest = worker.fleet.context.settings.get("project.pytest") or "python3 -m pytest"
    words = f"{pytest} --collect-only -q {shlex.quote(places.shown(places.tests))}"
    place = prefix(worker.fleet.context, places) or "."
    argv = ["sh", "-c", f'cd "$1" && {words}', "sh", place]
    outcome = worker.fleet.exec([worker.name], argv)[0]
    code = outcome.extra.get("exit_code")
    if code not in (0, None):
        said = str(outcome.extra.get("stdout") or "") + str(outcome.extra.get("stderr") or "")
        tail = f"{words} ends with {code}:\n" + "\n".join(said.strip().splitlines()[-_SHOWN:])
        found += not_imported(said) or [tail]
    elif code is None:
        found.append(f"{words} could not be run: {outcome.error}")
    left = worker.fleet.exec([worker.name], ["git", "status", "--porcelain", "--", "*.py"])[0]
    rows = str(left.extra.get("stdout") or "").splitlines()
    return found + [f"{row[3:]} has changes that are not committed" for row in rows]


def not_imported(said: str) -> list[str]:
    """The place and the reason of each file that pytest could not import, from what it said."""
    found: list[str] = []
    place = ""
    for match in _NO_IMPORT.finditer(said):
        if match["why"] and place:
            found.append(f"{place}: does not import: {match['why']}")
        place = match["place"] or ""
    return found


def _reasons(worker: Worker) -> dict[str, str]:
    """By block, why the mechanic made no test for it."""
    rows = [
        row for row in worker.rows() if row.get("tool") == "observe" and isinstance(row.get("input"), dict)
    ]
    return {str(row["input"].get("block")): f"; {row.get('output')}" for row in rows}


def _diff(finding: Finding) -> str:
    return "\n" + finding.diff.rstrip("\n") if finding.diff else ""


def _is_of_tests(report: Report, finding: Finding) -> bool:
    """Whether it can be mended in the tests: the script is the contract."""
    return not finding.is_warning and (finding.path != report.script.path or finding.kind == "gap")


def _said(what: Finding | Problem) -> str:
    kind = getattr(what, "kind", "unreadable")
    return f"{what.path}:{what.line}: {kind}: {what.message}"


def _look(ctx: Context, places: Places, commit: str) -> Report:
    """The check on what was committed: the script as it is here, the tests as the agent left them. Nothing of it is run."""
    with tempfile.TemporaryDirectory(prefix="mngr-sync-") as place:
        inside = os.path.join(place, "tests")
        os.makedirs(inside)
        for path, text in read_committed(ctx, places, commit, places.tests, ".py").items():
            target = os.path.join(inside, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(text)
        script = read_script(places.file, places.shown(places.file))
        return compare(script, read_tests(inside, lambda path: os.path.relpath(path, inside)))


def how_to_try(ctx: Context, places: Places) -> dict[str, object]:
    """What blocks are run by: the shell that the script is written for, and for how long."""
    with open(places.file, encoding="utf-8", errors="replace") as file:
        shell = "bash" if "bash" in file.readline() else "sh"
    limit = ctx.settings.get("tutorial.timeout")
    seconds = parse_length(str(limit)) if limit else None
    return {"shell": shell, "timeout": seconds, "place": prefix(ctx, places)}


def _rows(report: Report) -> list[dict[str, object]]:
    return [one.to_dict() for one in report.blocks]
