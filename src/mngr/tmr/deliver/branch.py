"""Delivers the integrated branch to the user's repository.

mngr moves it only when it is unchanged since the last delivery, or when no commit of the user would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.integration_record import BranchCommit, Integration, PushedBranch
from mngr.tmr.commits import clean_untrusted_text
from mngr.tmr.commits.trees import (
    GIT_SAFE_ARGS,
    MNGR_AUTHOR,
    CommitSpec,
    cherry_pick,
    list_trees,
    make_tree_row,
    write_commits,
)

_OWN_REPO = ("--git-dir=.",)  # the run's own repository is bare
_FETCH_ARGS = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
)


class UserCommits(Struct):
    """Commits that people added to the branch, oldest first."""

    tip: str
    commits: list[str]


def get_branch_name(run: RunDir) -> str:
    """Return the name of the integrated branch."""
    return f"mngr/{run.name}/integrated"


def find_user_commits(
    local: Host, run: RunDir, last_delivered: str | None, known_commits: Sequence[str] = ()
) -> UserCommits | None:
    """Return the commits that people added to the branch, or None when there are none.

    `last_delivered` is the previous delivery, and `known_commits` are the user's commits that it contained.
    Raises MngrError when mngr must not move the branch any more.
    """
    name = get_branch_name(run)
    tip = git.find_commit(local, run.root, f"refs/heads/{name}", git.SAFE_GIT)
    if tip is None:
        return None
    if tip == last_delivered:
        return UserCommits(tip=tip, commits=list(known_commits)) if known_commits else None
    hint = f"rename your branch, and integrate again: git branch -m {name} NAME"
    if (
        last_delivered is None
        or git.run(local, run.root, "merge-base", "--is-ancestor", last_delivered, tip, git_command=git.SAFE_GIT).code
    ):
        raise MngrError(f"the branch {name} is not the branch that mngr created", hint)
    if git.run_checked(local, run.root, "rev-list", "--merges", f"{last_delivered}..{tip}", git_command=git.SAFE_GIT):
        raise MngrError(f"the branch {name} has merge commits that you made", hint)
    git.run_checked(
        local,
        run.repo,
        *_OWN_REPO,
        *GIT_SAFE_ARGS,
        *_FETCH_ARGS,
        run.root,
        f"+refs/heads/{name}:{run.ref_name('theirs')}",
        git_command=git.GIT,
    )
    rows = git.run_checked(
        local, run.repo, "rev-list", "--reverse", f"{last_delivered}..{tip}", git_command=git.ISOLATED_GIT
    ).split("\n")
    return UserCommits(tip=tip, commits=[*known_commits, *rows])


def replay_commits(local: Host, repo: str, head: str, commits: Iterable[str]) -> list[str]:
    """Apply commits of people on top of a head, and return the new commits; raise MngrError on a conflict."""
    replayed: list[str] = []
    for commit in commits:
        parent = git.run_checked(local, repo, "rev-parse", f"{commit}^", git_command=git.ISOLATED_GIT)
        if parent == head:
            head = commit
            replayed.append(commit)
            continue
        merged = cherry_pick(local, repo, str(list_trees(local, repo, [head])[0]), parent, commit)
        if merged.conflict_paths:
            raise MngrError(
                f"your commit {commit[:10]} on the branch conflicts with the new version of the branch in {', '.join(merged.conflict_paths)}",
                "remove your commit from the branch, or exclude the change that conflicts with it: mngr tmr integrate --without CHANGE",
            )
        details = git.run_checked(
            local,
            repo,
            "show",
            "--no-patch",
            "--format=%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B",
            "--date=raw",
            commit,
            git_command=git.ISOLATED_GIT,
        )
        name, mail, date, committer_name, committer_mail, committer_date, message = details.split("\0")
        spec = CommitSpec(
            parent=head,
            rows=[make_tree_row(merged.tree)],
            author=f"{clean_untrusted_text.clean_author(name, mail)} {clean_untrusted_text.clean_date(date)}",
            committer=f"{clean_untrusted_text.clean_author(committer_name, committer_mail)} {clean_untrusted_text.clean_date(committer_date)}",
            message=message,
        )
        head = write_commits(local, repo, [spec])[0]
        replayed.append(head)
    return replayed


def get_published_branch(
    local: Host, run: RunDir, last_integration: Integration, user_commits: UserCommits | None
) -> PushedBranch:
    """Return the branch that people have seen.

    That is the pushed branch if the local one was rebuilt since then, else the local one.
    """
    tip = user_commits.tip if user_commits is not None else str(last_integration.delivered)
    pushed = last_integration.pushed
    if (
        pushed is None
        or not git.run(
            local, run.repo, "merge-base", "--is-ancestor", pushed.commit, tip, git_command=git.ISOLATED_GIT
        ).code
    ):
        return PushedBranch(commit=tip, commits=last_integration.commits)
    if user_commits is not None:
        raise MngrError(
            f"mngr rebuilt {get_branch_name(run)} after the last push, and the branch has commits that you made",
            f"replace the pushed branch: mngr tmr integrate {run.name} --update-pr --rewrite",
        )
    return pushed


def check_remote(local: Host, run: RunDir, remote: str = "origin") -> None:
    """Raise MngrError when the remote branch has commits that neither mngr nor the local user made."""
    name = get_branch_name(run)
    remote_tip = git.find_commit(local, run.root, f"refs/remotes/{remote}/{name}", git.SAFE_GIT)
    tip = git.find_commit(local, run.root, f"refs/heads/{name}", git.SAFE_GIT)
    if remote_tip is None or git.find_commit(local, run.repo, remote_tip, git.ISOLATED_GIT) is not None:
        return
    if (
        tip is None
        or git.run(local, run.root, "merge-base", "--is-ancestor", remote_tip, tip, git_command=git.SAFE_GIT).code
    ):
        raise MngrError(
            f"{name} has commits on {remote} that are not in this repository",
            f"fetch them, and integrate again: git fetch {remote} {name}:{name}",
        )


def append_changes(
    local: Host, repo: str, published: PushedBranch, target: str, commits: Sequence[BranchCommit], reason: str
) -> str:
    """Return a new tip with the target's tree, built without removing any commit from the published branch.

    First come reverts of excluded changes, then the new changes. `commits` are the commits of the target.
    """
    tip = published.commit
    for row in _select_new_fixes(reversed(published.commits), commits):
        parent = git.run_checked(local, repo, "rev-parse", f"{row.commit}^", git_command=git.ISOLATED_GIT)
        parent_tree = str(list_trees(local, repo, [parent])[0])
        revert_spec = CommitSpec(parent=row.commit, rows=[make_tree_row(parent_tree)])
        revert = write_commits(local, repo, [revert_spec])[0]
        message = f'Revert "{row.subject}"\n\nThis reverts commit {row.commit}.\n\n{reason}'.strip() + "\n"
        tip = _append_commit(local, repo, tip, row.commit, revert, message, row.commit)
    for row in _select_new_fixes(commits, published.commits):
        parent = git.run_checked(local, repo, "rev-parse", f"{row.commit}^", git_command=git.ISOLATED_GIT)
        message = git.run_checked(
            local, repo, "show", "--no-patch", "--format=%B", row.commit, git_command=git.ISOLATED_GIT
        )
        tip = _append_commit(local, repo, tip, parent, row.commit, message + "\n", row.commit)
    tree, target_tree = list_trees(local, repo, [tip, target])
    if tree == target_tree:
        return tip
    message = f"[TEST/DOC] Match the remaining changes\n\n{reason}".strip() + "\n"
    return write_commits(local, repo, [_make_commit_spec(local, repo, tip, str(target_tree), message, target)])[0]


def _select_new_fixes(commits: Iterable[BranchCommit], others: Iterable[BranchCommit]) -> list[BranchCommit]:
    """Return the commits with single changes that the other branch does not have."""
    known_changes = {name for row in others for name in row.changes}
    return [row for row in commits if row.kind != "test" and known_changes.isdisjoint(row.changes)]


def _append_commit(local: Host, repo: str, tip: str, parent: str, commit: str, message: str, date_source: str) -> str:
    """Append a commit that repeats another; return the same tip when that conflicts or changes nothing."""
    tree = str(list_trees(local, repo, [tip])[0])
    merged = cherry_pick(local, repo, tree, parent, commit)
    if merged.conflict_paths or merged.tree == tree:
        return tip
    return write_commits(local, repo, [_make_commit_spec(local, repo, tip, merged.tree, message, date_source)])[0]


def _make_commit_spec(local: Host, repo: str, parent: str, tree: str, message: str, date_source: str) -> CommitSpec:
    date = git.run_checked(
        local, repo, "show", "--no-patch", "--format=%cd", "--date=raw", date_source, git_command=git.ISOLATED_GIT
    )
    author = f"{MNGR_AUTHOR} {clean_untrusted_text.clean_date(date)}"
    return CommitSpec(parent=parent, rows=[make_tree_row(tree)], author=author, committer=author, message=message)


def fetch_commit(local: Host, run: RunDir, name: str, commit: str) -> None:
    """Fetch a commit of the user's repository into the run's repository."""
    git.run_checked(
        local,
        run.repo,
        *_OWN_REPO,
        *GIT_SAFE_ARGS,
        *_FETCH_ARGS,
        run.root,
        f"+{commit}:{run.ref_name(name)}",
        git_command=git.GIT,
    )


def move_branch(local: Host, run: RunDir, head: str, last_delivered: str | None) -> None:
    """Move the branch in the user's repository to a commit of the run, if nobody else has moved it.

    Nothing else in that repository changes.
    """
    name = get_branch_name(run)
    tip = git.find_commit(local, run.root, f"refs/heads/{name}", git.SAFE_GIT)
    if tip == head:
        return
    for row in git.run_checked(local, run.root, "worktree", "list", "--porcelain", git_command=git.SAFE_GIT).split(
        "\n\n"
    ):
        if f"branch refs/heads/{name}" in row.split("\n"):
            worktree = row.split("\n")[0].removeprefix("worktree ")
            raise MngrError(
                f"{name} is checked out in {worktree}",
                f"switch to another branch there, and integrate again: mngr tmr integrate {run.name}",
            )
    ref = run.ref_name("integrated")
    git.run_checked(local, run.repo, "update-ref", ref, head, git_command=git.ISOLATED_GIT)
    git.run_checked(local, run.root, *GIT_SAFE_ARGS, *_FETCH_ARGS, run.repo, f"+{ref}:{ref}", git_command=git.GIT)
    try:
        expected_tip = "0" * len(head) if tip is None else last_delivered or tip
        git.run_checked(local, run.root, "update-ref", f"refs/heads/{name}", head, expected_tip, git_command=git.GIT)
    finally:
        git.run(local, run.root, "update-ref", "-d", ref, git_command=git.GIT)
