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
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.cleanroom.test_run import TestFunction
from mngr.tmr.prepare.collect import collect_tests
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.edits import diff_commits
from mngr.tmr.verify.legacy.policy import Change
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.red_green import list_unneeded_fixes
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.text_checks import find_changed_tests, list_weakenings
from mngr.tmr.verify.verify import verify

ReceiptListener = Callable[[Receipt], None]


_VERDICT_ORDER = ("unverified", "refuted", "flaky", "confirmed")


class BranchReceipts(Struct):
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
        return next((word for word in _VERDICT_ORDER if word in found), "confirmed")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Each finding once."""
        rows = {
            (row["rule"], row["path"], row["line"], row["what"]): row
            for rows in (
                self.guard,
                *(receipt.all_findings for receipt in self.receipts),
                self._list_unneeded_fixes(),
            )
            for row in rows
        }
        return list(rows.values())

    def _list_unneeded_fixes(self) -> list[dict[str, Any]]:
        return [finding.to_dict() for finding in list_unneeded_fixes([receipt.proofs for receipt in self.receipts])]


def verify_branch(
    fleet: Fleet, root: str, ref: str, base: str | None, paths: Sequence[str], how: VerifyOptions, *, walls: CleanRoomSandbox | None, on: str,
    shelf: ResultCache | None, say: ReceiptListener,
) -> BranchReceipts:  # fmt: skip
    """A receipt for each test that the branch has changed, or that is named. Raises MngrError."""
    local = fleet.context.local_host
    commit = _get_commit(local, root, ref)
    since = _get_commit(local, root, base) if base else _get_fork_point(local, root, ref, commit)
    whole = diff_commits(local, root, since, commit)
    if not whole:
        raise UsageError(f"{ref} changes nothing since {since[:10]}", "say since when: --base REF")
    with _open_clean_rooms(fleet, root, (commit, since), walls, on) as rooms:
        tests = _select_tests(rooms, commit, how, whole, paths)
        found = _verify_claims(
            rooms,
            [VerifyRequest(test=test, commit=commit, base=since, is_one_of_many=True) for test in tests],
            how,
            shelf,
            say,
        )
    return BranchReceipts(
        ref=ref,
        commit=commit,
        base=since,
        receipts=found,
        guard=[one.to_dict() for one in list_weakenings(whole)],
    )


def _verify_claims(
    rooms: CleanRoomPool,
    claims: list[VerifyRequest],
    how: VerifyOptions,
    shelf: ResultCache | None,
    say: ReceiptListener,
) -> list[Receipt]:
    """As many at once as there are rooms."""

    def one(claim: VerifyRequest) -> Receipt:
        receipt = verify(rooms, claim, how, shelf=shelf)
        say(receipt)
        return receipt

    with concurrent.futures.ThreadPoolExecutor(rooms.max_rooms) as pool:
        return list(pool.map(one, claims))


def _get_commit(local: Host, root: str, ref: str) -> str:
    found = git.find_commit(local, root, ref)
    if found is None:
        raise NotFound(f"there is no commit {ref!r}", "see: git log --oneline --all")
    return found


def _get_fork_point(local: Host, root: str, ref: str, commit: str) -> str:
    """Where a branch left the one it will go back to: ours, its upstream, or the main one."""
    for other in ("HEAD", f"{ref}@{{upstream}}", "origin/HEAD", "main", "master"):
        if git.find_commit(local, root, other) not in (None, commit):
            found = git.run(local, root, "merge-base", other, commit)
            if found.code == 0 and found.text != commit:
                return found.text
    parent = git.find_commit(local, root, f"{commit}^")
    if parent is None:
        raise UsageError(f"{ref} is the first commit", "there is nothing to compare it with")
    return parent


def _select_tests(
    rooms: CleanRoomPool, commit: str, how: VerifyOptions, whole: Sequence[Change], paths: Sequence[str]
) -> list[TestFunction]:
    """The tests that are named; else those that say something else than before."""
    files = [change for change in whole if is_test_file(change.path) and change.new is not None]
    wanted = list(paths) or [change.path for change in files]
    if not wanted:
        raise UsageError("no test was changed", "name the tests that it is about: mngr tmr verify REF TEST…")
    with rooms.acquire(commit) as room:
        found = collect_tests(room, how.pytest, wanted, how.args, program=how.program)
    if found.errors:
        raise MngrError(f"the tests cannot be collected:\n  {found.errors[0].strip()[-1500:]}", "mend that first")
    if paths:
        return found.tests
    changed = {change.path: find_changed_tests(change) for change in files}
    return [test for test in found.tests if changed[test.path] is None or test.name in (changed[test.path] or ())]


@contextlib.contextmanager
def _open_clean_rooms(
    fleet: Fleet,
    repo: str,
    commits: tuple[str, ...],
    walls: CleanRoomSandbox | None,
    on: str,
    at_once: int | None = None,
) -> Iterator[CleanRoomPool]:
    """Rooms for some commits of a repository in which nothing is written."""
    with tempfile.TemporaryDirectory(prefix="mngr-verify-") as place:
        aside = _create_borrowing_repo(fleet.context.local_host, repo, place, commits)
        rooms = CleanRoomPool(fleet, f"verify-{os.urandom(3).hex()}", aside, at_once=at_once, walls=walls, on=on)
        try:
            yield rooms
        finally:
            rooms.release_hosts()


def _create_borrowing_repo(local: Host, root: str, place: str, commits: tuple[str, ...]) -> str:
    """A repository that borrows the objects of another, with names for the commits that can be had from it."""
    path = os.path.join(place, "repo.git")
    form = git.run_checked(local, root, "rev-parse", "--show-object-format")
    git.run_checked(local, root, "init", "--quiet", "--bare", f"--object-format={form}", "--template=", path)
    objects = git.run_checked(local, root, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    os.makedirs(os.path.join(path, "objects", "info"), exist_ok=True)
    with open(os.path.join(path, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
        file.write(f"{objects}\n")
    for number, commit in enumerate(commits):
        git.run_checked(local, path, "update-ref", f"refs/heads/c{number}", commit)
    return path


# A receipt once more


class ReceiptComparison(Struct):
    """Two receipts for the same claim, and in what they differ."""

    before: Receipt
    after: Receipt
    differences: list[str]


def recheck_receipt(
    fleet: Fleet,
    root: str,
    path: str,
    data: dict[str, Any],
    *,
    walls: CleanRoomSandbox | None,
    on: str,
    policy: Any,
) -> ReceiptComparison:
    """Run again what a receipt tells of, from the commits alone, and compare. Raises MngrError."""
    before = _parse_receipt(path, data)
    local, again = fleet.context.local_host, before.again
    repo = _get_repo(local, root, path, before.commit)
    how = VerifyOptions(
        pytest=again["pytest"], args=again["args"], runs=before.k, timeout=again["timeout"], program=again["program"],
        level=before.level, seed=before.seed, policy=policy, mutant_count=again["faults"],
    )  # fmt: skip
    claim = VerifyRequest(
        test=TestFunction(**again["test"]), commit=before.commit, base=before.base, is_shared=again["is_shared"], is_one_of_many=again.get("is_one_of_many", False),
        affected_tests=[TestFunction(**row) for row in again["witnesses"]], claim={"changes": again["kinds"]} if again["kinds"] else {},
    )  # fmt: skip
    with _open_clean_rooms(fleet, repo, (before.commit, before.base), walls, on, at_once=1) as rooms:
        after = verify(rooms, claim, how)
    return ReceiptComparison(before=before, after=after, differences=compare_receipts(before, after))


def _parse_receipt(path: str, data: dict[str, Any]) -> Receipt:
    try:
        receipt = Receipt(**{key: value for key, value in data.items() if key in Receipt._fields})
        if not receipt.again.get("test"):
            raise ValueError("it does not say how it was made")
    except (TypeError, ValueError) as error:
        raise MngrError(
            f"{path} is no receipt: {error}", "a receipt.json of a task, or one that tmr verify wrote"
        ) from None
    return receipt


def _get_repo(local: Host, root: str, path: str, commit: str) -> str:
    """Where the commit is: in the repository of the run that the receipt lies in, or in the project's."""
    parts = os.path.abspath(path).split(os.sep)
    places = [root]
    if "runs" in parts and "tasks" in parts:
        places.insert(0, RunDir(root, parts[parts.index("tasks") - 1]).repo)
    for place in places:
        if os.path.isdir(place) and git.find_commit(local, place, commit) == commit:
            return place
    raise NotFound(f"there is no commit {commit[:12]} here", "run it in the project that the receipt is of")


def compare_receipts(before: Receipt, after: Receipt) -> list[str]:
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
