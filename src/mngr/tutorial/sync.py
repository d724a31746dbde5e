"""`tutorial sync`: an agent writes the tests that are missing; what it left is checked by us, and it is told what is still wrong."""

from __future__ import annotations

import os
import shlex

from mngr import git
from mngr.errors import MngrError
from mngr.fleet import Fleet
from mngr.model import Record
from mngr.tutorial import brief
from mngr.tutorial.blocks import read_script
from mngr.tutorial.check import check, compare
from mngr.tutorial.citations import read_tests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.ops.context import Context
    from mngr.tutorial.check import Report
    from mngr.tutorial.places import Places

MECHANIC = "mechanic"
_SHOWN = 15  # lines of what pytest said that an agent is told


class Wish(Record):
    """How the work shall be done."""

    agent: str = MECHANIC
    rounds: int = 3
    timeout: float = 3600.0  # seconds for one turn
    sandbox: bool = False
    network: str | None = None
    yolo: bool = False
    on: str | None = None  # an address without a name: @HOST, @.PROVIDER
    args: list[str] = []  # for the agent's program


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
    _check_clean(ctx, places)
    if wish.agent == MECHANIC and not any(finding.kind == "gap" for finding in missing):
        raise MngrError(
            "the mechanic writes tests for blocks that have none, and there is no such block",
            "bring stale citations up to date with: mngr tutorial check --fix",
        )
    fleet = Fleet(context=ctx)
    name = f"sync-{os.urandom(3).hex()}"
    agent = fleet.create(
        name + (wish.on or ""),
        wish.agent,
        wish.args,
        dirty="ignore",
        sandbox=wish.sandbox,
        network=wish.network,
        yolo=wish.yolo,
        labels={"for": "tutorial-sync"},
    )
    ctx.note(f"{name} works on it; watch it with: mngr connect {name}")
    try:
        return _converse(ctx, fleet, places, wish, report, agent.name)
    finally:
        fleet.stop([name])


def _converse(ctx: Context, fleet: Fleet, places: Places, wish: Wish, report: Report, name: str) -> Synced:
    """Tell it, see what it did, tell it what is still wrong."""
    tests = places.shown(places.tests)
    text = brief.write(report, tests, places.root)
    if wish.agent == MECHANIC:
        text += "\n" + brief.job(report, tests, _shell(places.file))
    most = 1 if wish.agent == MECHANIC else wish.rounds  # it would do the same again
    for number in range(1, most + 1):
        outcome = fleet.message([name], text, wait=True, timeout=wish.timeout)[0]
        if not outcome.ok:
            raise MngrError(f"{name}: {outcome.error}", outcome.hint or f"look at it: mngr connect {name}")
        pulled = fleet.pull(name)
        after = _look(ctx, places, pulled.commit) if pulled.commit else report
        problems = _problems(fleet, name, places, after)
        if not pulled.commits:
            problems = [f"{name} has committed nothing; what it said: mngr transcript {name}", *problems]
        ctx.note(
            f"round {number}: {len(problems)} things are still wrong" if problems else f"round {number}: done"
        )
        if not problems:
            break
        text = brief.again(problems)
    return Synced(
        agent=name,
        branch=pulled.branch,
        commit=pulled.commit,
        rounds=number,
        rows=_rows(after),
        problems=problems,
    )


def _problems(fleet: Fleet, name: str, places: Places, report: Report) -> list[str]:
    """What the check and pytest have to say about the agent's work; its tests are only loaded where it lives."""
    found = [
        f"{finding.kind}: {finding.path}:{finding.line}: {finding.message}"
        for finding in report.findings
        if not finding.is_warning
    ]
    pytest = fleet.context.settings.get("project.pytest") or "python3 -m pytest"
    words = f"{pytest} --collect-only -q {shlex.quote(places.shown(places.tests))}"
    outcome = fleet.exec([name], ["sh", "-c", words])[0]
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
        tests = places.shown(places.tests)
        for path, text in _test_files(ctx, places, commit, tests):
            target = os.path.join(place, "tests", path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(text)
        script = read_script(places.file, places.shown(places.file))
        return compare(script, read_tests(inside, lambda path: os.path.relpath(path, inside)))


def _test_files(ctx: Context, places: Places, commit: str, tests: str) -> list[tuple[str, bytes]]:
    """Path and content of every Python file under the tests, links and large ones left out."""
    listed = git.must(ctx.local, places.root, "ls-tree", "-r", "-l", "-z", commit, "--", tests)
    found: list[tuple[str, bytes]] = []
    for row in listed.split("\0"):
        about, _, path = row.partition("\t")
        mode, _, sha, size = [*about.split(), "", "", "", ""][:4]
        if mode.startswith("100") and path.endswith(".py") and size.isdigit() and int(size) < 1_000_000:
            found.append((path, git.run(ctx.local, places.root, "cat-file", "blob", sha).out))
    return found


def _check_clean(ctx: Context, places: Places) -> None:
    """The agent starts from what is committed."""
    repo = git.find_repo(ctx.local, places.root)
    if repo is None:
        raise MngrError(f"{places.root} is not in a git repository", "git init it, and commit")
    paths = [places.shown(path) for path in (places.file, places.tests)]
    listed = git.must(ctx.local, places.root, "status", "--porcelain", "--", *paths)
    if listed.strip():
        raise MngrError(
            f"{' and '.join(paths)} have changes that are not committed",
            "commit them: the agent starts from there",
        )


def _shell(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return "bash" if "bash" in file.readline() else "sh"


def _rows(report: Report) -> list[dict[str, object]]:
    return [one.to_dict() for one in report.blocks]
