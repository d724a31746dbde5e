"""Proves a fix of the implementation: the test must fail without it (red) and pass with it (green)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.commits.base_for_later_tasks import AUTHOR_ARGS
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import compute_signature, is_test_code
from mngr.tmr.runners.test_run import TestRun
from mngr.tmr.verify.commit_diffs import ClaimedCommit, diff_commits
from mngr.tmr.verify.rules.changed_file import ChangedFile

FileTexts = dict[str, str | None]
RunWithFiles = Callable[[FileTexts], TestRun]  # runs the test with some files replaced


MAX_RUNS = 3  # additional runs, beyond those that show that the test passes
# Rules that can only be judged for all tests of a commit together.
CROSS_TEST_RULES = ("fix-not-needed", "never-red", "red-for-another-reason")
_TEXT_SUFFIXES = (".md", ".rst", ".txt")


class RedGreenProof(Struct):
    """The observations about one fix, or about several that could not be separated."""

    fixes: list[str]  # commits
    subject: str = ""
    before: str = ""  # outcome on the base: fail | error | … | "" when the base has no such test
    before_why: str = ""
    without: str = ""  # outcome when only the fix is reverted
    without_why: str = ""
    is_needed: bool | None = None  # None: the fix could not be reverted
    is_same_reason: bool | None = None
    reason: str = ""
    trials: int = 0  # how often mngr ran the test for this proof
    seconds: float = 0.0  # that these runs took


def is_implementation(path: str) -> bool:
    """True when the file is code under test: no test code, and no text for people."""
    return (
        not is_test_code(path)
        and not path.endswith(_TEXT_SUFFIXES)
        and not path.rpartition("/")[2].startswith("tutorial.")
    )


def list_fixes(commits: Sequence[ClaimedCommit]) -> list[ClaimedCommit]:
    """Return the commits that change the implementation."""
    return [commit for commit in commits if any(is_implementation(change.path) for change in commit.changes)]


def find_base_files(changes: Sequence[ChangedFile]) -> FileTexts | None:
    """Return the changed files as the base has them, or None when one of them is no text."""
    return _find_file_texts(
        [change.replace(old=change.new, new=change.old, status=_invert_status(change.status)) for change in changes]
    )


def prove_fixes(
    local: Host,
    repo: str,
    head: str,
    fixes: Sequence[ClaimedCommit],
    run_with: RunWithFiles,
    base_run: TestRun | None,
    runs: int = MAX_RUNS,
) -> tuple[list[RedGreenProof], list[Finding]]:
    """Return a proof for each fix, or one for all if there are too few runs, and the findings.

    `base_run` is the test's run on the base, and `run_with` runs the test with replaced files.
    """
    groups = [[fix] for fix in fixes] if len(fixes) <= runs else [list(fixes)]
    proofs = [_prove_group(local, repo, head, group, run_with, base_run) for group in groups]
    return proofs, [
        finding for proof, group in zip(proofs, groups, strict=True) for finding in _list_findings(proof, group)
    ]


def add_base_run(proofs: list[RedGreenProof], run: TestRun | None) -> list[RedGreenProof]:
    """Return the proofs with the cost of the run on the base, which all of them share, in the first one."""
    if run is None or not proofs:
        return proofs
    first = proofs[0]
    return [first.replace(trials=first.trials + 1, seconds=round(first.seconds + run.seconds, 3)), *proofs[1:]]


def _prove_group(
    local: Host, repo: str, head: str, group: list[ClaimedCommit], run_with: RunWithFiles, base_run: TestRun | None
) -> RedGreenProof:
    """Revert a group of fixes, run the test and return the proof."""
    blank = RedGreenProof(fixes=[fix.commit for fix in group], subject=" + ".join(fix.subject for fix in group)[:300])
    if base_run is not None:
        blank = blank.replace(before=base_run.outcome, before_why=base_run.why)
    tree = revert_fixes(local, repo, head, group)
    if tree is None:
        return blank.replace(reason="mngr cannot revert it alone, because later commits build on it")
    files = _find_file_texts(
        [change for change in diff_commits(local, repo, head, tree) if is_implementation(change.path)]
    )
    if files is None:
        return blank.replace(reason="it changes files that are not text files")
    if not files:
        return blank.replace(is_needed=False, reason="the claimed commit contains nothing of it any more")
    run = run_with(files)
    is_needed = run.outcome not in ("pass", "skip")
    is_same_reason = (
        compute_signature(run) == compute_signature(base_run)
        if is_needed and base_run is not None and base_run.outcome != "pass"
        else None
    )
    return blank.replace(
        without=run.outcome,
        without_why=run.why,
        is_needed=is_needed,
        is_same_reason=is_same_reason,
        trials=1,
        seconds=round(run.seconds, 3),
    )


def revert_fixes(local: Host, repo: str, head: str, fixes: Sequence[ClaimedCommit]) -> str | None:
    """Return the tree of `head` without the fixes, or None when they do not revert cleanly."""
    tree = f"{head}^{{tree}}"
    current = head
    for fix in reversed(fixes):
        undo = git.run_checked(
            local,
            repo,
            *AUTHOR_ARGS,
            "commit-tree",
            f"{fix.parent}^{{tree}}",
            "-p",
            fix.commit,
            "-m",
            "undo",
            git_command=git.ISOLATED_GIT,
        )
        merged = git.run(local, repo, "merge-tree", "--write-tree", current, undo, git_command=git.ISOLATED_GIT)
        if merged.code:
            return None
        tree = merged.text.split("\n")[0]
        current = git.run_checked(
            local, repo, *AUTHOR_ARGS, "commit-tree", tree, "-p", current, "-m", "undone", git_command=git.ISOLATED_GIT
        )
    return git.run_checked(local, repo, "rev-parse", tree, git_command=git.ISOLATED_GIT)


def list_unneeded_fixes(proofs_by_receipt: Sequence[Sequence[RedGreenProof]]) -> list[Finding]:
    """Return a finding for each fix that no test needs, from the proofs of several receipts."""
    needed: dict[str, bool] = {}
    subjects: dict[str, str] = {}
    for proof in (proof for proofs in proofs_by_receipt for proof in proofs):
        for fix in proof.fixes:
            subjects[fix] = proof.subject
            needed[fix] = needed.get(fix, False) or proof.is_needed is not False
    return [
        Finding(
            rule="fix-not-needed",
            level="note",
            path="",
            what=f"{fix[:10]} ({subjects[fix]}): none of the tests that mngr ran needs this fix",
        )
        for fix, is_needed in needed.items()
        if not is_needed
    ]


def _find_file_texts(changes: Sequence[ChangedFile]) -> FileTexts | None:
    """Return the new texts of the changed files, None for a deleted one; or None when one is no plain text file."""
    texts: FileTexts = {}
    for change in changes:
        if change.status == "D":
            texts[change.path] = None
        elif change.new is None or not change.new_mode.startswith("100"):
            return None
        else:
            texts[change.path] = change.new
    return texts


def _invert_status(status: str) -> str:
    return {"A": "D", "D": "A"}.get(status, status)


def _list_findings(proof: RedGreenProof, group: list[ClaimedCommit]) -> list[Finding]:
    path = next((change.path for change in group[0].changes if is_implementation(change.path)), "")
    name = f"{proof.fixes[0][:10]} ({group[0].subject})"
    findings: list[Finding] = []

    def add(rule: str, sentence: str) -> None:
        findings.append(Finding(rule=rule, level="note", path=path, what=sentence))

    if proof.is_needed is None:
        add("fix-unproven", f"{name}: mngr could not test whether this fix is needed: {proof.reason}")
    elif not proof.is_needed:
        add(
            "fix-not-needed",
            f"{name}: the test also passes without this fix{f', {proof.reason}' if proof.reason else ''}",
        )
    if proof.before == "pass":
        add("never-red", f"{name}: the test already passed before this fix")
    elif proof.is_same_reason is False:
        add(
            "red-for-another-reason",
            f"{name}: without this fix the test fails for a different reason than before the commit: {proof.without_why}; before the commit: {proof.before_why}",
        )
    return findings
