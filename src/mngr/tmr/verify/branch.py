"""Makes receipts outside a run: for the tests that a branch changed, or again for an existing receipt."""

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
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.test_run import TestFunction
from mngr.tmr.prepare.collect import collect_tests
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.claimed_commits import diff_commits
from mngr.tmr.verify.legacy.policy import Change, Policy
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.red_green import list_unneeded_fixes
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.text_checks import find_changed_tests, list_weakenings
from mngr.tmr.verify.verify import verify

ReceiptListener = Callable[[Receipt], None]


_VERDICT_ORDER = ("unverified", "refuted", "flaky", "confirmed")


class BranchRequest(Struct):
    """The branch to verify, and the tests that are run."""

    ref: str
    base: str | None = None  # by default the commit where the branch left the others
    paths: Sequence[str] = ()  # by default the tests that the branch changed


class BranchReceipts(Struct):
    """The receipts of a branch."""

    ref: str
    commit: str
    base: str
    receipts: list[Receipt]
    guard: list[dict[str, Any]]  # weakened tests, including those that were not run

    @property
    def verdict(self) -> str:
        """The worst verdict of all receipts."""
        verdicts = {receipt.verdict for receipt in self.receipts}
        verdicts |= {"refuted"} if any(row["level"] == "refuse" for row in self.guard) else set()
        return next((verdict for verdict in _VERDICT_ORDER if verdict in verdicts), "confirmed")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """All findings, each once."""
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
    fleet: Fleet,
    root: str,
    request: BranchRequest,
    options: VerifyOptions,
    room_options: CleanRoomOptions,
    *,
    cache: ResultCache | None,
    on_receipt: ReceiptListener,
) -> BranchReceipts:
    """Return a receipt for each named test, or for each test that the branch changed. Raise MngrError."""
    local, ref, base = fleet.context.local_host, request.ref, request.base
    commit = _get_commit(local, root, ref)
    base_commit = _get_commit(local, root, base) if base else _get_fork_point(local, root, ref, commit)
    changes = diff_commits(local, root, base_commit, commit)
    if not changes:
        raise UsageError(f"{ref} changes nothing since {base_commit[:10]}", "say since when: --base REF")
    with _open_clean_rooms(fleet, root, (commit, base_commit), room_options) as clean_rooms:
        tests = _select_tests(clean_rooms, commit, options, changes, request.paths)
        receipts = _verify_claims(
            clean_rooms,
            [VerifyRequest(test=test, commit=commit, base=base_commit, is_one_of_many=True) for test in tests],
            options,
            cache,
            on_receipt,
        )
    return BranchReceipts(
        ref=ref,
        commit=commit,
        base=base_commit,
        receipts=receipts,
        guard=[finding.to_dict() for finding in list_weakenings(changes)],
    )


def _verify_claims(
    clean_rooms: CleanRoomPool,
    requests: list[VerifyRequest],
    options: VerifyOptions,
    cache: ResultCache | None,
    on_receipt: ReceiptListener,
) -> list[Receipt]:
    """Verify the claims in parallel, as many as there are clean rooms."""

    def verify_one(request: VerifyRequest) -> Receipt:
        receipt = verify(clean_rooms, request, options, cache=cache)
        on_receipt(receipt)
        return receipt

    with concurrent.futures.ThreadPoolExecutor(clean_rooms.max_rooms) as pool:
        return list(pool.map(verify_one, requests))


def _get_commit(local: Host, root: str, ref: str) -> str:
    commit = git.find_commit(local, root, ref)
    if commit is None:
        raise NotFound(f"there is no commit {ref!r}", "see: git log --oneline --all")
    return commit


def _get_fork_point(local: Host, root: str, ref: str, commit: str) -> str:
    """Return the commit where the branch left HEAD, its upstream or the main branch."""
    for other in ("HEAD", f"{ref}@{{upstream}}", "origin/HEAD", "main", "master"):
        if git.find_commit(local, root, other) not in (None, commit):
            merge_base = git.run(local, root, "merge-base", other, commit)
            if merge_base.code == 0 and merge_base.text != commit:
                return merge_base.text
    parent = git.find_commit(local, root, f"{commit}^")
    if parent is None:
        raise UsageError(f"{ref} is the first commit", "there is nothing to compare it with")
    return parent


def _select_tests(
    clean_rooms: CleanRoomPool, commit: str, options: VerifyOptions, changes: Sequence[Change], paths: Sequence[str]
) -> list[TestFunction]:
    """Return the named tests, or those that the branch changed."""
    files = [change for change in changes if is_test_file(change.path) and change.new is not None]
    selection = list(paths) or [change.path for change in files]
    if not selection:
        raise UsageError("no test was changed", "name the tests that it is about: mngr tmr verify REF TEST…")
    with clean_rooms.acquire(commit) as clean_room:
        collected = collect_tests(clean_room, options.pytest, selection, options.args, program=options.program)
    if collected.errors:
        raise MngrError(f"the tests cannot be collected:\n  {collected.errors[0].strip()[-1500:]}", "mend that first")
    if paths:
        return collected.tests
    changed = {change.path: find_changed_tests(change) for change in files}
    return [test for test in collected.tests if changed[test.path] is None or test.name in (changed[test.path] or ())]


@contextlib.contextmanager
def _open_clean_rooms(
    fleet: Fleet,
    repo: str,
    commits: tuple[str, ...],
    options: CleanRoomOptions,
    max_rooms: int | None = None,
) -> Iterator[CleanRoomPool]:
    """Open clean rooms for some commits of a repository, without writing to the repository."""
    with tempfile.TemporaryDirectory(prefix="mngr-verify-") as temp_dir:
        borrowing_repo = _create_borrowing_repo(fleet.context.local_host, repo, temp_dir, commits)
        run_name = f"verify-{os.urandom(3).hex()}"
        clean_rooms = CleanRoomPool(fleet, run_name, borrowing_repo, options, at_once=max_rooms)
        try:
            yield clean_rooms
        finally:
            clean_rooms.release_hosts()


def _create_borrowing_repo(local: Host, root: str, parent_dir: str, commits: tuple[str, ...]) -> str:
    """Create a bare repository that borrows the objects of another and has branches for the commits."""
    path = os.path.join(parent_dir, "repo.git")
    object_format = git.run_checked(local, root, "rev-parse", "--show-object-format")
    git.run_checked(local, root, "init", "--quiet", "--bare", f"--object-format={object_format}", "--template=", path)
    objects = git.run_checked(local, root, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    os.makedirs(os.path.join(path, "objects", "info"), exist_ok=True)
    with open(os.path.join(path, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
        file.write(f"{objects}\n")
    for number, commit in enumerate(commits):
        git.run_checked(local, path, "update-ref", f"refs/heads/c{number}", commit)
    return path


# Repeating a receipt


class ReceiptComparison(Struct):
    """Two receipts for the same claim, and their differences."""

    before: Receipt
    after: Receipt
    differences: list[str]


def recheck_receipt(
    fleet: Fleet,
    root: str,
    path: str,
    data: dict[str, Any],
    room_options: CleanRoomOptions,
    policy: Policy,
) -> ReceiptComparison:
    """Repeat the verification of a receipt from its commits, and compare. Raise MngrError."""
    before = _parse_receipt(path, data)
    local, again = fleet.context.local_host, before.again
    repo = _get_repo(local, root, path, before.commit)
    options = VerifyOptions(
        pytest=again["pytest"], args=again["args"], runs=before.k, timeout=again["timeout"], program=again["program"],
        level=before.level, seed=before.seed, policy=policy, mutant_count=again["faults"],
    )  # fmt: skip
    request = VerifyRequest(
        test=TestFunction(**again["test"]), commit=before.commit, base=before.base, is_shared=again["is_shared"], is_one_of_many=again.get("is_one_of_many", False),
        affected_tests=[TestFunction(**row) for row in again["witnesses"]], claim={"changes": again["kinds"]} if again["kinds"] else {},
    )  # fmt: skip
    with _open_clean_rooms(fleet, repo, (before.commit, before.base), room_options, max_rooms=1) as clean_rooms:
        after = verify(clean_rooms, request, options)
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
    """Return the repository with the commit: that of the receipt's run, or the project's."""
    parts = os.path.abspath(path).split(os.sep)
    candidates = [root]
    if "runs" in parts and "tasks" in parts:
        candidates.insert(0, RunDir(root, parts[parts.index("tasks") - 1]).repo)
    for repo in candidates:
        if os.path.isdir(repo) and git.find_commit(local, repo, commit) == commit:
            return repo
    raise NotFound(f"there is no commit {commit[:12]} here", "run it in the project that the receipt is of")


def compare_receipts(before: Receipt, after: Receipt) -> list[str]:
    """Return the differences between two receipts, apart from times."""
    differences: list[str] = []

    def compare(label: str, old: object, new: object) -> None:
        if old != new:
            differences.append(f"{label}: {old} then, {new} now")

    compare("verdict", before.verdict, after.verdict)
    compare("tree", before.tree, after.tree)
    compare("results", *([row["outcome"] for row in receipt.results] for receipt in (before, after)))
    compare(
        "witnesses",
        *(sorted((row["test"], row["outcome"]) for row in receipt.witnesses) for receipt in (before, after)),
    )
    compare("imported", before.imported_from, after.imported_from)
    for name in ("command", "environment"):
        compare(f"hash of {name}", before.hashes.get(name), after.hashes.get(name))
    compare(
        "findings",
        *(sorted({(row["rule"], row["path"]) for row in receipt.all_findings}) for receipt in (before, after)),
    )
    compare("proofs", *([row["is_needed"] for row in receipt.proofs] for receipt in (before, after)))
    return differences
