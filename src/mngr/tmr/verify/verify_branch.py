"""Makes receipts outside a run: for the tests that a branch changed, or again for an existing receipt."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence

from mngr.api import Fleet
from mngr.base import shell
from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.base.json_structs import decode
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import is_own_run
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.replaceable_room import run_in_room
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.runners.choose_runner import choose_runner
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.commit_diffs import diff_commits
from mngr.tmr.verify.project_setup_changes import list_setup_changes
from mngr.tmr.verify.receipt import Receipt, VerificationInputs
from mngr.tmr.verify.red_green import list_unneeded_fixes
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.text_checks import check_policy, find_changed_tests, list_weakenings
from mngr.tmr.verify.verify import verify
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest

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
    guard: list[Finding]  # weakened tests, including those that were not run

    @property
    def verdict(self) -> str:
        """The worst verdict of all receipts."""
        verdicts = {receipt.verdict for receipt in self.receipts}
        verdicts |= {"refuted"} if any(finding.level == "refuse" for finding in self.guard) else set()
        return next((verdict for verdict in _VERDICT_ORDER if verdict in verdicts), "confirmed")

    @property
    def findings(self) -> list[Finding]:
        """All findings, each once."""
        of_receipts = [finding for receipt in self.receipts for finding in receipt.all_findings]
        unneeded_fixes = list_unneeded_fixes([receipt.proofs for receipt in self.receipts])
        by_identity = {
            (finding.rule, finding.path, finding.line, finding.what): finding
            for finding in (*self.guard, *of_receipts, *unneeded_fixes)
        }
        return list(by_identity.values())


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
    base_commit = _get_commit(local, root, base) if base else _find_branch_start(local, root, ref, commit)
    changes = diff_commits(local, root, base_commit, commit)
    if not changes:
        raise UsageError(
            f"{ref} has no changes since {base_commit[:10]}", f"choose an older base: mngr tmr verify {ref} --base REF"
        )
    trusted_commit = None if options.trusts_setup else base_commit
    room_options = room_options.replace(settings_root=root, trusted_commit=trusted_commit)
    with _open_clean_rooms(fleet, [root], (commit, base_commit), room_options) as clean_rooms:
        findings = check_policy([], changes, options.policy, is_claim=False)
        if trusted_commit is not None and list_setup_changes(clean_rooms.settings, changes, findings):
            # Nothing of the branch runs, not even the collection of its tests: each file gets one receipt.
            tests = [TestFunction(id=path, ids=[], path=path, name="") for path in _list_paths(changes, request.paths)]
        else:
            tests = _select_tests(clean_rooms, commit, options, changes, request.paths)
        receipts = _verify_claims(
            clean_rooms,
            [VerifyRequest(test=test, commit=commit, base=base_commit, is_one_of_many=True) for test in tests],
            options,
            cache,
            on_receipt,
        )
    guard = _apply_weights(list_weakenings(changes), receipts)
    return BranchReceipts(ref=ref, commit=commit, base=base_commit, receipts=receipts, guard=guard)


def _apply_weights(guard: Sequence[Finding], receipts: Sequence[Receipt]) -> list[Finding]:
    """Return the findings of text rules with the level that the experiments of a receipt gave them."""
    levels: dict[Finding, set[str]] = {}
    for finding in (finding for receipt in receipts for finding in receipt.guard):
        levels.setdefault(finding.replace(level=""), set()).add(finding.level)

    def weigh(finding: Finding) -> Finding:
        weighed = levels.get(finding.replace(level=""), {finding.level})
        return finding.replace(level="refuse" if "refuse" in weighed else min(weighed))

    return [weigh(finding) for finding in guard]


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
    commit = git.find_commit(local, root, ref, git.SAFE_GIT)
    if commit is None:
        raise NotFound(f"there is no commit {ref!r}", "list the commits: git log --oneline --all")
    return commit


def _find_branch_start(local: Host, root: str, ref: str, commit: str) -> str:
    """Return the commit where the branch left HEAD, its upstream or the main branch."""
    for other in ("HEAD", f"{ref}@{{upstream}}", "origin/HEAD", "main", "master"):
        if git.find_commit(local, root, other, git.SAFE_GIT) not in (None, commit):
            merge_base = git.run(local, root, "merge-base", other, commit, git_command=git.SAFE_GIT)
            if merge_base.code == 0 and merge_base.text != commit:
                return merge_base.text
    parent = git.find_commit(local, root, f"{commit}^", git.SAFE_GIT)
    if parent is None:
        raise UsageError(
            f"{ref} is the first commit, so there is nothing to compare it with",
            "choose a later commit: git log --oneline --all",
        )
    return parent


def _select_tests(
    clean_rooms: CleanRoomPool,
    commit: str,
    options: VerifyOptions,
    changes: Sequence[ChangedFile],
    paths: Sequence[str],
) -> list[TestFunction]:
    """Return the named tests, or those that the branch changed."""
    selection = _list_paths(changes, paths)
    runner = choose_runner(options)
    collected = run_in_room(clean_rooms, commit, lambda room: runner.collect(room, selection, program=options.program))
    if collected.errors:
        raise MngrError(
            f"pytest cannot collect the tests:\n  {collected.errors[0].strip()[-1500:]}",
            "repair this error on the branch and commit the repair, then run the same command again",
        )
    if paths:
        return collected.tests
    changed = {change.path: find_changed_tests(change) for change in changes if change.path in selection}
    return [test for test in collected.tests if changed[test.path] is None or test.name in (changed[test.path] or ())]


def _list_paths(changes: Sequence[ChangedFile], paths: Sequence[str]) -> list[str]:
    """Return the named tests, or the files of tests that the branch changed."""
    files = [change.path for change in changes if is_test_file(change.path) and change.new is not None]
    if not paths and not files:
        raise UsageError(
            "the branch changes no test", "name the tests to run: mngr tmr verify BRANCH tests/test_NAME.py"
        )
    return list(paths) or files


@contextlib.contextmanager
def _open_clean_rooms(
    fleet: Fleet,
    repos: Sequence[str],
    commits: tuple[str, ...],
    options: CleanRoomOptions,
    max_rooms: int | None = None,
) -> Iterator[CleanRoomPool]:
    """Open clean rooms for some commits that are in one of the repositories, without writing to a repository."""
    with tempfile.TemporaryDirectory(prefix="mngr-verify-") as temp_dir:
        borrowing_repo = _create_borrowing_repo(fleet.context.local_host, repos, temp_dir, commits)
        run_name = f"verify-{os.urandom(3).hex()}"
        clean_rooms = CleanRoomPool(fleet, run_name, borrowing_repo, options, at_once=max_rooms)
        try:
            yield clean_rooms
        finally:
            clean_rooms.close()


def _create_borrowing_repo(local: Host, repos: Sequence[str], parent_dir: str, commits: tuple[str, ...]) -> str:
    """Create a bare repository that borrows the objects of others and has branches for the commits."""
    path, root = os.path.join(parent_dir, "repo.git"), repos[0]
    object_format = git.run_checked(local, root, "rev-parse", "--show-object-format", git_command=git.SAFE_GIT)
    git.run_checked(
        local,
        root,
        "init",
        "--quiet",
        "--bare",
        f"--object-format={object_format}",
        "--template=",
        path,
        git_command=git.ISOLATED_GIT,
    )
    os.makedirs(os.path.join(path, "objects", "info"), exist_ok=True)
    with open(os.path.join(path, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
        for repo in repos:
            objects = git.run_checked(
                local, repo, "rev-parse", "--path-format=absolute", "--git-path", "objects", git_command=git.SAFE_GIT
            )
            file.write(f"{objects}\n")
    for number, commit in enumerate(commits):
        git.run_checked(local, path, "update-ref", f"refs/heads/c{number}", commit, git_command=git.ISOLATED_GIT)
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
    data: object,
    room_options: CleanRoomOptions,
    options: VerifyOptions,
) -> ReceiptComparison:
    """Repeat the verification of a receipt from its commits, and compare. Raise MngrError.

    A receipt can come from somebody else. So every command comes from `options`, and set-up uses the last commit of your
    checkout that the receipt's base has.
    """
    before = _parse_receipt(path, data)
    inputs = _get_inputs(path, before)
    repo = _get_repo(fleet.context.local_host, root, path, before.commit)
    options = options.replace(
        runs=before.runs,
        timeout=inputs.timeout,
        level=before.level,
        seed=before.seed,
    )
    request = VerifyRequest(
        test=inputs.test,
        commit=before.commit,
        base=before.base,
        affected_tests=inputs.affected_tests,
        claimed_changes=inputs.claimed_changes,
        is_one_of_many=inputs.is_one_of_many,
        is_shared=inputs.is_shared,
    )
    commits = (before.commit, before.base)
    trusted_commit = (
        None if options.trusts_setup else _find_trusted_commit(fleet.context.local_host, root, repo, before.base)
    )
    room_options = room_options.replace(settings_root=root, trusted_commit=trusted_commit)
    with _open_clean_rooms(fleet, list(dict.fromkeys((root, repo))), commits, room_options, max_rooms=1) as clean_rooms:
        after = verify(clean_rooms, request, options)
    differences = [*_compare_commands(inputs, options), *compare_receipts(before, after)]
    return ReceiptComparison(before=before, after=after, differences=differences)


def _compare_commands(inputs: VerificationInputs, options: VerifyOptions) -> list[str]:
    """Return how the receipt's commands differ from those that mngr ran."""
    commands = (
        ("pytest", shell.join(inputs.pytest), shell.join(options.pytest)),
        ("pytest arguments", shell.join(inputs.args), shell.join(options.args)),
        ("program", inputs.program or "", options.program or ""),
    )
    return [
        f"{label}: the receipt has {old or 'none'!r}, but mngr used yours: {new or 'none'!r}"
        for label, old, new in commands
        if old != new
    ]


def _find_trusted_commit(local: Host, root: str, repo: str, base: str) -> str:
    """Return the last commit of the user's checkout that is also in the history of `base`."""
    head = _get_commit(local, root, "HEAD")
    with tempfile.TemporaryDirectory(prefix="mngr-verify-") as temp_dir:
        borrowing_repo = _create_borrowing_repo(local, list(dict.fromkeys((root, repo))), temp_dir, (head, base))
        merge_base = git.run(local, borrowing_repo, "merge-base", head, base, git_command=git.ISOLATED_GIT)
    if merge_base.code:
        raise MngrError(
            f"the receipt's base {base[:12]} and your checkout have no commit in common",
            "check out the branch that the receipt is about: git switch BRANCH",
        )
    return merge_base.text


def _parse_receipt(path: str, data: object) -> Receipt:
    try:
        return decode(Receipt, data)
    except ValueError as error:
        raise _make_no_receipt_error(path, str(error)) from None


def _get_inputs(path: str, receipt: Receipt) -> VerificationInputs:
    if receipt.rerun is None:
        raise _make_no_receipt_error(path, "it does not say how mngr made it")
    if receipt.runs < 1 or receipt.level not in ("quick", "full"):
        raise _make_no_receipt_error(path, f"it has {receipt.runs} runs at level {receipt.level!r}")
    return receipt.rerun


def _make_no_receipt_error(path: str, reason: str) -> MngrError:
    return MngrError(
        f"{path} is not a receipt: {reason}",
        "name the receipt.json of a task: mngr tmr verify --receipt .mngr/runs/RUN/tasks/TASK/receipt.json",
    )


def _get_repo(local: Host, root: str, path: str, commit: str) -> str:
    """Return the repository with the commit: that of the receipt's run, or the project's."""
    parts = os.path.abspath(path).split(os.sep)
    candidates = [root]
    if "runs" in parts and "tasks" in parts:
        run = RunDir(root, parts[parts.index("tasks") - 1])
        if is_own_run(local, run):
            candidates.insert(0, run.repo)
    for repo in candidates:
        if os.path.isdir(repo) and git.find_commit(local, repo, commit, git.SAFE_GIT) == commit:
            return repo
    raise NotFound(
        f"this repository does not have the receipt's commit {commit[:12]}",
        "run the same command in the project that the receipt is about",
    )


def compare_receipts(before: Receipt, after: Receipt) -> list[str]:
    """Return the differences between two receipts, apart from times."""
    old_facts, new_facts = _map_comparable_facts(before), _map_comparable_facts(after)
    return [
        f"{label}: {old} before, {new_facts[label]} now" for label, old in old_facts.items() if old != new_facts[label]
    ]


def _map_comparable_facts(receipt: Receipt) -> dict[str, object]:
    """Return the facts that must be the same when a verification is repeated, by their names in messages."""
    return {
        "verdict": receipt.verdict,
        "tree": receipt.tree,
        "results": [result.outcome for result in receipt.results],
        "affected tests": sorted((result.test, result.outcome) for result in receipt.affected_tests),
        "imported": receipt.imported_from,
        "hash of command": receipt.hashes.get("command"),
        "hash of environment": receipt.hashes.get("environment"),
        "findings": sorted({(finding.rule, finding.path) for finding in receipt.all_findings}),
        "proofs": [proof.is_needed for proof in receipt.proofs],
    }
