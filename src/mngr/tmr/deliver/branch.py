"""The branch in the user's repository: one name, moved only when it is as we left it or has nothing of theirs that would be lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.commits import untrusted
from mngr.tmr.commits.trees import (
    GIT_SAFE_ARGS,
    MNGR_AUTHOR,
    CommitSpec,
    cherry_pick,
    list_trees,
    make_tree_row,
    write_commits,
)

_FETCH_ARGS = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
)


class UserCommits(Struct):
    """Commits that people have put on the branch, the oldest first."""

    tip: str
    commits: list[str]


def get_branch_name(run: RunDir) -> str:
    """What the branch is called."""
    return f"mngr/{run.name}/integrated"


def find_user_commits(local: Host, run: RunDir, last: str | None, before: Sequence[str] = ()) -> UserCommits | None:
    """What people did to the branch; None when there is nothing. Raises MngrError when it is no longer ours to move.

    `last` is what was delivered, and `before` is what there was of theirs on that.
    """
    name = get_branch_name(run)
    tip = git.find_commit(local, run.root, f"refs/heads/{name}")
    if tip is None:
        return None
    if tip == last:
        return UserCommits(tip=tip, commits=list(before)) if before else None
    hint = f"keep it under another name: git branch -m {name} NAME"
    if last is None or git.run(local, run.root, "merge-base", "--is-ancestor", last, tip).code:
        raise MngrError(f"the branch {name} is not the one that was delivered", hint)
    if git.run_checked(local, run.root, "rev-list", "--merges", f"{last}..{tip}"):
        raise MngrError(f"the branch {name} has merges of yours on it", hint)
    git.run_checked(
        local,
        run.repo,
        *GIT_SAFE_ARGS,
        *_FETCH_ARGS,
        run.root,
        f"+refs/heads/{name}:{run.ref_name('theirs')}",
    )
    rows = git.run_checked(local, run.repo, "rev-list", "--reverse", f"{last}..{tip}").split("\n")
    return UserCommits(tip=tip, commits=[*before, *rows])


def replay_commits(local: Host, repo: str, head: str, commits: Iterable[str]) -> list[str]:
    """Commits of people on a head, as they made them; raises MngrError when they do not go there."""
    made: list[str] = []
    for commit in commits:
        parent = git.run_checked(local, repo, "rev-parse", f"{commit}^")
        if parent == head:
            head = commit
            made.append(commit)
            continue
        done = cherry_pick(local, repo, str(list_trees(local, repo, [head])[0]), parent, commit)
        if done.conflict_paths:
            raise MngrError(
                f"your commit {commit[:10]} on the branch does not go with what it would become: {', '.join(done.conflict_paths)}",
                "take it off the branch, or integrate without what is in its way",
            )
        about = git.run_checked(
            local,
            repo,
            "show",
            "--no-patch",
            "--format=%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B",
            "--date=raw",
            commit,
        )
        name, mail, date, by, by_mail, by_date, message = about.split("\0")
        spec = CommitSpec(
            parent=head, rows=[make_tree_row(done.tree)], author=f"{untrusted.clean_author(name, mail)} {untrusted.clean_date(date)}",
            committer=f"{untrusted.clean_author(by, by_mail)} {untrusted.clean_date(by_date)}", message=message,
        )  # fmt: skip
        head = write_commits(local, repo, [spec])[0]
        made.append(head)
    return made


def get_published_branch(
    local: Host, run: RunDir, last: dict[str, Any], own: UserCommits | None
) -> tuple[str, list[dict[str, Any]]]:
    """The branch as people have seen it, with its rows: as it was pushed, if it was made anew since then; else as it is here."""
    tip = own.tip if own is not None else str(last["delivered"])
    pushed = last.get("pushed")
    if pushed is None or not git.run(local, run.repo, "merge-base", "--is-ancestor", pushed["commit"], tip).code:
        return tip, last.get("commits") or []
    if own is not None:
        raise MngrError(
            f"{get_branch_name(run)} was made anew since it was pushed, and has commits of yours",
            "use --rewrite, too",
        )
    return pushed["commit"], pushed["commits"]


def check_remote(local: Host, run: RunDir, remote: str = "origin") -> None:
    """Raises MngrError when the branch has commits there that neither we made nor people here."""
    name = get_branch_name(run)
    seen = git.find_commit(local, run.root, f"refs/remotes/{remote}/{name}")
    tip = git.find_commit(local, run.root, f"refs/heads/{name}")
    if seen is None or git.find_commit(local, run.repo, seen) is not None:
        return
    if tip is None or git.run(local, run.root, "merge-base", "--is-ancestor", seen, tip).code:
        raise MngrError(
            f"{name} has commits at {remote} that are not here",
            f"take them, and integrate again: git fetch {remote} {name}:{name}",
        )


def append_changes(
    local: Host, repo: str, tip: str, target: str, before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], why: str,
) -> str:  # fmt: skip
    """From what people have seen to what is to be, without taking a commit away: reverts of what is gone, then what is new.

    `tip` is the branch as it is, `target` has the tree that it shall have, `before` and `after` are the rows of both branches.
    """
    kept = {name for row in after for name in row["changes"]}
    known = {name for row in before for name in row["changes"]}
    for row in reversed(before):
        if row["kind"] != "test" and not kept.intersection(row["changes"]):
            parent = git.run_checked(local, repo, "rev-parse", f"{row['commit']}^")
            back = write_commits(
                local,
                repo,
                [CommitSpec(parent=row["commit"], rows=[make_tree_row(str(list_trees(local, repo, [parent])[0]))])],
            )[0]
            message = f'Revert "{row["subject"]}"\n\nThis takes back {row["commit"]}.\n\n{why}'.strip() + "\n"
            tip = _append_commit(local, repo, tip, row["commit"], back, message, row["commit"])
    for row in after:
        if row["kind"] != "test" and not known.intersection(row["changes"]):
            parent = git.run_checked(local, repo, "rev-parse", f"{row['commit']}^")
            message = git.run_checked(local, repo, "show", "--no-patch", "--format=%B", row["commit"])
            tip = _append_commit(local, repo, tip, parent, row["commit"], message + "\n", row["commit"])
    trees = list_trees(local, repo, [tip, target])
    if trees[0] == trees[1]:
        return tip
    message = f"[TEST/DOC] As the changes that are left have it\n\n{why}".strip() + "\n"
    return write_commits(local, repo, [_make_commit_spec(local, repo, tip, str(trees[1]), message, target)])[0]


def _append_commit(local: Host, repo: str, tip: str, parent: str, commit: str, message: str, like: str) -> str:
    """One commit more that does what another did to its parent; the same tip when that does not go, or does nothing."""
    tree = str(list_trees(local, repo, [tip])[0])
    done = cherry_pick(local, repo, tree, parent, commit)
    if done.conflict_paths or done.tree == tree:
        return tip
    return write_commits(local, repo, [_make_commit_spec(local, repo, tip, done.tree, message, like)])[0]


def _make_commit_spec(local: Host, repo: str, parent: str, tree: str, message: str, like: str) -> CommitSpec:
    date = git.run_checked(local, repo, "show", "--no-patch", "--format=%cd", "--date=raw", like)
    who = f"{MNGR_AUTHOR} {untrusted.clean_date(date)}"
    return CommitSpec(parent=parent, rows=[make_tree_row(tree)], author=who, committer=who, message=message)


def fetch_commit(local: Host, run: RunDir, name: str, commit: str) -> None:
    """A commit of the user's repository into the run's own."""
    git.run_checked(local, run.repo, *GIT_SAFE_ARGS, *_FETCH_ARGS, run.root, f"+{commit}:{run.ref_name(name)}")


def move_branch(local: Host, run: RunDir, head: str, last: str | None) -> None:
    """Move the branch in the user's repository to a commit of the run's, if it is still where it was; nothing else there changes."""
    name = get_branch_name(run)
    tip = git.find_commit(local, run.root, f"refs/heads/{name}")
    if tip == head:
        return
    for row in git.run_checked(local, run.root, "worktree", "list", "--porcelain").split("\n\n"):
        if f"branch refs/heads/{name}" in row.split("\n"):
            where = row.split("\n")[0].removeprefix("worktree ")
            raise MngrError(f"{name} is checked out in {where}", "go to another branch there, and integrate again")
    ref = run.ref_name("integrated")
    git.run_checked(local, run.repo, "update-ref", ref, head)
    git.run_checked(local, run.root, *GIT_SAFE_ARGS, *_FETCH_ARGS, run.repo, f"+{ref}:{ref}")
    try:
        was = "0" * len(head) if tip is None else last or tip
        git.run_checked(local, run.root, "update-ref", f"refs/heads/{name}", head, was)
    finally:
        git.run(local, run.root, "update-ref", "-d", ref)
