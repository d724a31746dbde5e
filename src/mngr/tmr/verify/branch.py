"""Receipts without a run: for the tests that any branch has changed, and once more for a receipt that somebody has."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mngr.api import Fleet
from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.base.model import Record
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.cleanroom.rooms import Rooms
from mngr.tmr.cleanroom.sandbox import Walls
from mngr.tmr.cleanroom.test_run import Test
from mngr.tmr.prepare.collect import collect
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tmr.result_cache import Shelf
from mngr.tmr.verify.edits import changes
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.red_green import not_needed
from mngr.tmr.verify.request import Claim, How
from mngr.tmr.verify.text_checks import changed_tests, weakenings
from mngr.tmr.verify.verify import verify

Say = Callable[[Receipt], None]


_ORDER = ("unverified", "refuted", "flaky", "confirmed")


class Branch(Record):
    """What was seen of a branch."""

    ref: str
    commit: str
    base: str
    receipts: list[Receipt]
    guard: list[dict[str, Any]]  # what it takes from tests, also from those that were not run

    @property
    def verdict(self) -> str:
        """The worst of all."""
        found = {receipt.verdict for receipt in self.receipts}
        found |= {"refuted"} if any(row["level"] == "refuse" for row in self.guard) else set()
        return next((word for word in _ORDER if word in found), "confirmed")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Each finding once."""
        rows = {
            (row["rule"], row["path"], row["line"], row["what"]): row
            for rows in (self.guard, *(receipt.all_findings for receipt in self.receipts), self._idle())
            for row in rows
        }
        return list(rows.values())

    def _idle(self) -> list[dict[str, Any]]:
        return [finding.to_dict() for finding in not_needed([receipt.proofs for receipt in self.receipts])]


def verify_branch(
    fleet: Fleet, root: str, ref: str, base: str | None, paths: Sequence[str], how: How, *, walls: Walls | None, on: str,
    shelf: Shelf | None, say: Say,
) -> Branch:  # fmt: skip
    """A receipt for each test that the branch has changed, or that is named. Raises MngrError."""
    local = fleet.context.local
    commit = _commit(local, root, ref)
    since = _commit(local, root, base) if base else _fork(local, root, ref, commit)
    whole = changes(local, root, since, commit)
    if not whole:
        raise UsageError(f"{ref} changes nothing since {since[:10]}", "say since when: --base REF")
    with _rooms(fleet, root, (commit, since), walls, on) as rooms:
        tests = _tests(rooms, commit, how, whole, paths)
        found = _all(
            rooms,
            [Claim(test=test, commit=commit, base=since, is_one_of_many=True) for test in tests],
            how,
            shelf,
            say,
        )
    return Branch(
        ref=ref, commit=commit, base=since, receipts=found, guard=[one.to_dict() for one in weakenings(whole)]
    )


def _all(rooms: Rooms, claims: list[Claim], how: How, shelf: Shelf | None, say: Say) -> list[Receipt]:
    """As many at once as there are rooms."""

    def one(claim: Claim) -> Receipt:
        receipt = verify(rooms, claim, how, shelf=shelf)
        say(receipt)
        return receipt

    with concurrent.futures.ThreadPoolExecutor(rooms.at_once) as pool:
        return list(pool.map(one, claims))


def _commit(local: Host, root: str, ref: str) -> str:
    found = git.resolve(local, root, ref)
    if found is None:
        raise NotFound(f"there is no commit {ref!r}", "see: git log --oneline --all")
    return found


def _fork(local: Host, root: str, ref: str, commit: str) -> str:
    """Where a branch left the one it will go back to: ours, its upstream, or the main one."""
    for other in ("HEAD", f"{ref}@{{upstream}}", "origin/HEAD", "main", "master"):
        if git.resolve(local, root, other) not in (None, commit):
            found = git.run(local, root, "merge-base", other, commit)
            if found.code == 0 and found.text != commit:
                return found.text
    parent = git.resolve(local, root, f"{commit}^")
    if parent is None:
        raise UsageError(f"{ref} is the first commit", "there is nothing to compare it with")
    return parent


def _tests(rooms: Rooms, commit: str, how: How, whole: Sequence[Change], paths: Sequence[str]) -> list[Test]:
    """The tests that are named; else those that say something else than before."""
    files = [change for change in whole if is_test_file(change.path) and change.new is not None]
    wanted = list(paths) or [change.path for change in files]
    if not wanted:
        raise UsageError("no test was changed", "name the tests that it is about: mngr tmr verify REF TEST…")
    with rooms.room(commit) as room:
        found = collect(room, how.pytest, wanted, how.args, program=how.program)
    if found.errors:
        raise MngrError(
            f"the tests cannot be collected:\n  {found.errors[0].strip()[-1500:]}", "mend that first"
        )
    if paths:
        return found.tests
    changed = {change.path: changed_tests(change) for change in files}
    return [
        test for test in found.tests if changed[test.path] is None or test.name in (changed[test.path] or ())
    ]


@contextlib.contextmanager
def _rooms(
    fleet: Fleet,
    repo: str,
    commits: tuple[str, ...],
    walls: Walls | None,
    on: str,
    at_once: int | None = None,
) -> Iterator[Rooms]:
    """Rooms for some commits of a repository in which nothing is written."""
    with tempfile.TemporaryDirectory(prefix="mngr-verify-") as place:
        aside = _aside(fleet.context.local, repo, place, commits)
        rooms = Rooms(fleet, f"verify-{os.urandom(3).hex()}", aside, at_once=at_once, walls=walls, on=on)
        try:
            yield rooms
        finally:
            rooms.close()


def _aside(local: Host, root: str, place: str, commits: tuple[str, ...]) -> str:
    """A repository that borrows the objects of another, with names for the commits that can be had from it."""
    path = os.path.join(place, "repo.git")
    form = git.must(local, root, "rev-parse", "--show-object-format")
    git.must(local, root, "init", "--quiet", "--bare", f"--object-format={form}", "--template=", path)
    objects = git.must(local, root, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    os.makedirs(os.path.join(path, "objects", "info"), exist_ok=True)
    with open(os.path.join(path, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
        file.write(f"{objects}\n")
    for number, commit in enumerate(commits):
        git.must(local, path, "update-ref", f"refs/heads/c{number}", commit)
    return path


# A receipt once more


class Again(Record):
    """Two receipts for the same claim, and in what they differ."""

    before: Receipt
    after: Receipt
    differences: list[str]


def verify_again(
    fleet: Fleet, root: str, path: str, data: dict[str, Any], *, walls: Walls | None, on: str, policy: Any
) -> Again:
    """Run again what a receipt tells of, from the commits alone, and compare. Raises MngrError."""
    before = _read(path, data)
    local, again = fleet.context.local, before.again
    repo = _repo_of(local, root, path, before.commit)
    how = How(
        pytest=again["pytest"], args=again["args"], k=before.k, timeout=again["timeout"], program=again["program"],
        level=before.level, seed=before.seed, policy=policy, faults=again["faults"],
    )  # fmt: skip
    claim = Claim(
        test=Test(**again["test"]), commit=before.commit, base=before.base, is_shared=again["is_shared"], is_one_of_many=again.get("is_one_of_many", False),
        witnesses=[Test(**row) for row in again["witnesses"]], result={"changes": again["kinds"]} if again["kinds"] else {},
    )  # fmt: skip
    with _rooms(fleet, repo, (before.commit, before.base), walls, on, at_once=1) as rooms:
        after = verify(rooms, claim, how)
    return Again(before=before, after=after, differences=differences(before, after))


def _read(path: str, data: dict[str, Any]) -> Receipt:
    try:
        receipt = Receipt(**{key: value for key, value in data.items() if key in Receipt._fields})
        if not receipt.again.get("test"):
            raise ValueError("it does not say how it was made")
    except (TypeError, ValueError) as error:
        raise MngrError(
            f"{path} is no receipt: {error}", "a receipt.json of a task, or one that tmr verify wrote"
        ) from None
    return receipt


def _repo_of(local: Host, root: str, path: str, commit: str) -> str:
    """Where the commit is: in the repository of the run that the receipt lies in, or in the project's."""
    parts = os.path.abspath(path).split(os.sep)
    places = [root]
    if "runs" in parts and "tasks" in parts:
        places.insert(0, RunDir(root, parts[parts.index("tasks") - 1]).repo)
    for place in places:
        if os.path.isdir(place) and git.resolve(local, place, commit) == commit:
            return place
    raise NotFound(f"there is no commit {commit[:12]} here", "run it in the project that the receipt is of")


def differences(before: Receipt, after: Receipt) -> list[str]:
    """What two receipts say differently, times aside."""
    found: list[str] = []

    def compare(what: str, one: object, other: object) -> None:
        if one != other:
            found.append(f"{what}: {one} then, {other} now")

    compare("verdict", before.verdict, after.verdict)
    compare("tree", before.tree, after.tree)
    compare("results", *([row["outcome"] for row in one.results] for one in (before, after)))
    compare(
        "witnesses",
        *(sorted((row["test"], row["outcome"]) for row in one.witnesses) for one in (before, after)),
    )
    compare("imported", before.imported_from, after.imported_from)
    for name in ("command", "environment"):
        compare(f"hash of {name}", before.hashes.get(name), after.hashes.get(name))
    compare(
        "findings",
        *(sorted({(row["rule"], row["path"]) for row in one.all_findings}) for one in (before, after)),
    )
    compare("proofs", *([row["is_needed"] for row in one.proofs] for one in (before, after)))
    return found
