"""Red and green: a fix of the implementation is proven by a test that fails without it and passes with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.test_run import TestRun
from mngr.tmr.commits.task_base import AUTHOR_ARGS
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import compute_signature, is_test_code
from mngr.tmr.verify.edits import ClaimedCommit, diff_commits
from mngr.tmr.verify.legacy.policy import Change

FileTexts = dict[str, str | None]
RunWithFiles = Callable[[FileTexts], TestRun]  # the test, with some files other than the commit has them


MAX_RUNS = 3  # runs, beyond those that say that it passes
CROSS_TEST_RULES = (
    "fix-not-needed",
    "never-red",
    "red-for-another-reason",
)  # of all tests together, not of each
_TEXT_SUFFIXES = (".md", ".rst", ".txt")


class RedGreenProof(Struct):
    """What was seen of one fix, or of several that could not be told apart."""

    fixes: list[str]  # commits
    subject: str = ""
    before: str = ""  # outcome on the base: fail | error | … | "" when it is not there
    before_why: str = ""
    without: str = ""  # outcome with only the fix taken back
    without_why: str = ""
    is_needed: bool | None = None  # None: it could not be tried
    is_same_reason: bool | None = None
    reason: str = ""


def is_implementation(path: str) -> bool:
    """Whether a file is what tests are about: none of theirs, and no text for people."""
    return (
        not is_test_code(path)
        and not path.endswith(_TEXT_SUFFIXES)
        and not path.rpartition("/")[2].startswith("tutorial.")
    )


def list_fixes(edits: Sequence[ClaimedCommit]) -> list[ClaimedCommit]:
    """The commits that change the implementation."""
    return [edit for edit in edits if any(is_implementation(change.path) for change in edit.changes)]


def find_base_files(whole: Sequence[Change]) -> FileTexts | None:
    """The files as the base has them; None when they are not all texts."""
    return _find_file_texts(
        [change.replace(old=change.new, new=change.old, status=_invert_status(change.status)) for change in whole]
    )


def prove_fixes(
    local: Host,
    repo: str,
    head: str,
    fixes: Sequence[ClaimedCommit],
    attempt: RunWithFiles,
    red: TestRun | None,
    runs: int = MAX_RUNS,
) -> tuple[list[RedGreenProof], list[Finding]]:
    """A proof for each fix, if there are runs enough, else one for all; `red` is how the test ended on the base."""
    groups = [[fix] for fix in fixes] if len(fixes) <= runs else [list(fixes)]
    proofs = [_prove_group(local, repo, head, group, attempt, red) for group in groups]
    return proofs, [
        finding for proof, group in zip(proofs, groups, strict=True) for finding in _list_findings(proof, group)
    ]


def _prove_group(
    local: Host, repo: str, head: str, group: list[ClaimedCommit], attempt: RunWithFiles, red: TestRun | None
) -> RedGreenProof:
    blank = RedGreenProof(fixes=[fix.commit for fix in group], subject=" + ".join(fix.subject for fix in group)[:300])
    if red is not None:
        blank = blank.replace(before=red.outcome, before_why=red.why)
    tree = revert_fixes(local, repo, head, group)
    if tree is None:
        return blank.replace(reason="it cannot be taken back alone: what follows builds on it")
    swapped = _find_file_texts(
        [change for change in diff_commits(local, repo, head, tree) if is_implementation(change.path)]
    )
    if swapped is None:
        return blank.replace(reason="it changes files that are no texts")
    if not swapped:
        return blank.replace(is_needed=False, reason="nothing of it is left in the claimed commit")
    ran = attempt(swapped)
    is_needed = ran.outcome not in ("pass", "skip")
    same = (
        compute_signature(ran) == compute_signature(red)
        if is_needed and red is not None and red.outcome != "pass"
        else None
    )
    return blank.replace(without=ran.outcome, without_why=ran.why, is_needed=is_needed, is_same_reason=same)


def revert_fixes(local: Host, repo: str, head: str, fixes: Sequence[ClaimedCommit]) -> str | None:
    """The tree of a commit without some of its history; None when it does not come off cleanly."""
    tree = f"{head}^{{tree}}"
    at = head
    for fix in reversed(fixes):
        undo = git.run_checked(
            local, repo, *AUTHOR_ARGS, "commit-tree", f"{fix.parent}^{{tree}}", "-p", fix.commit, "-m", "undo"
        )
        merged = git.run(local, repo, "merge-tree", "--write-tree", at, undo)
        if merged.code:
            return None
        tree = merged.text.split("\n")[0]
        at = git.run_checked(local, repo, *AUTHOR_ARGS, "commit-tree", tree, "-p", at, "-m", "undone")
    return git.run_checked(local, repo, "rev-parse", tree)


def list_unneeded_fixes(rows: Sequence[Sequence[dict[str, Any]]]) -> list[Finding]:
    """The fixes that no test needs, of the proofs that several receipts hold."""
    needed: dict[str, bool] = {}
    about: dict[str, str] = {}
    for row in (row for some in rows for row in some):
        for fix in row["fixes"]:
            about[fix] = row["subject"]
            needed[fix] = needed.get(fix, False) or row["is_needed"] is not False
    return [
        Finding(
            rule="fix-not-needed",
            level="note",
            path="",
            what=f"{fix[:10]} ({about[fix]}): no test that was run needs it",
        )
        for fix, is_needed in needed.items()
        if not is_needed
    ]


def _find_file_texts(rows: Sequence[Change]) -> FileTexts | None:
    """What to put where, to have the new side of changes."""
    found: FileTexts = {}
    for change in rows:
        if change.status == "D":
            found[change.path] = None
        elif change.new is None or not change.new_mode.startswith("100"):
            return None
        else:
            found[change.path] = change.new
    return found


def _invert_status(status: str) -> str:
    return {"A": "D", "D": "A"}.get(status, status)


def _list_findings(proof: RedGreenProof, group: list[ClaimedCommit]) -> list[Finding]:
    path = next((change.path for change in group[0].changes if is_implementation(change.path)), "")
    name = f"{proof.fixes[0][:10]} ({group[0].subject})"
    found: list[Finding] = []

    def add(rule: str, what: str) -> None:
        found.append(Finding(rule=rule, level="note", path=path, what=what))

    if proof.is_needed is None:
        add("fix-unproven", f"{name} has no proof: {proof.reason}")
    elif not proof.is_needed:
        add(
            "fix-not-needed",
            f"{name}: the test passes without it as well{f', {proof.reason}' if proof.reason else ''}",
        )
    if proof.before == "pass":
        add("never-red", f"{name}: the test passed before it")
    elif proof.is_same_reason is False:
        add(
            "red-for-another-reason",
            f"{name}: without it the test fails otherwise than before: {proof.without_why}; before: {proof.before_why}",
        )
    return found
