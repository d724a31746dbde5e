"""`tutorial sync`: an agent writes the tests that are missing; what it left is checked by us, and it is told what is still wrong."""

from __future__ import annotations

import os
import shlex

from mngr.errors import MngrError
from mngr.model import Record
from mngr.tutorial import brief
from mngr.tutorial.blocks import read_script
from mngr.tutorial.check import check, compare
from mngr.tutorial.citations import read_tests
from mngr.tutorial.worker import MECHANIC, Worker, check_clean, read_committed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.ops.context import Context
    from mngr.tutorial.check import Report
    from mngr.tutorial.places import Places
    from mngr.tutorial.worker import Wish

_SHOWN = 15  # lines of what pytest said that an agent is told


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
    missing = [finding for finding in report.findings if finding.kind in ("gap", "stale", "orphan")]
    if not missing:
        return Synced(agent=None, branch=None, commit=None, rounds=0, rows=_rows(report), problems=[])
    check_clean(ctx, places, places.file, places.tests)
    if wish.agent == MECHANIC and not any(finding.kind == "gap" for finding in missing):
        raise MngrError(
            "the mechanic writes tests for blocks that have none, and there is no such block",
            "bring stale citations up to date with: mngr tutorial check --fix",
        )
    with Worker(ctx, wish, "sync") as worker:
        return _converse(ctx, worker, places, wish, report)


def _converse(ctx: Context, worker: Worker, places: Places, wish: Wish, report: Report) -> Synced:
    """Tell it, see what it did, tell it what is still wrong."""
    tests = places.shown(places.tests)
    text = brief.write(report, tests, places.root)
    if wish.agent == MECHANIC:
        text += "\n" + brief.job(report, tests, shell_of(places.file))
    most = 1 if wish.agent == MECHANIC else wish.rounds  # it would do the same again
    for number in range(1, most + 1):
        worker.tell(text)
        pulled = worker.fleet.pull(worker.name)
        after = _look(ctx, places, pulled.commit) if pulled.commit else report
        problems = _problems(worker, places, after)
        if not pulled.commits:
            said = f"{worker.name} has committed nothing; what it said: mngr transcript {worker.name}"
            problems = [said, *problems]
        ctx.note(
            f"round {number}: {len(problems)} things are still wrong" if problems else f"round {number}: done"
        )
        if not problems:
            break
        text = brief.again(problems)
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
    found = [
        f"{finding.kind}: {finding.path}:{finding.line}: {finding.message}"
        for finding in report.findings
        if not finding.is_warning
    ]
    pytest = worker.fleet.context.settings.get("project.pytest") or "python3 -m pytest"
    words = f"{pytest} --collect-only -q {shlex.quote(places.shown(places.tests))}"
    outcome = worker.fleet.exec([worker.name], ["sh", "-c", words])[0]
    code = outcome.extra.get("exit_code")
    if code not in (0, None):
        said = str(outcome.extra.get("stdout") or "") + str(outcome.extra.get("stderr") or "")
        found.append(f"{words} ends with {code}:\n" + "\n".join(said.strip().splitlines()[-_SHOWN:]))
    elif code is None:
        found.append(f"{words} could not be run: {outcome.error}")
    return found


def _look(ctx: Context, places: Places, commit: str) -> Report:
    """The check on what was committed: the script as it is here, the tests as the agent left them. Nothing of it is run."""
    import tempfile

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


def shell_of(path: str) -> str:
    """What the script is written for."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "bash" if "bash" in file.readline() else "sh"


def _rows(report: Report) -> list[dict[str, object]]:
    return [one.to_dict() for one in report.blocks]
