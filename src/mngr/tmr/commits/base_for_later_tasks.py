"""Builds the commit that later tasks start from: the base plus the confirmed fixes of shared root causes."""

from __future__ import annotations

from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal.run_state import TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import pin_commit

AUTHOR_ARGS = ("-c", "user.name=mngr", "-c", "user.email=mngr@localhost")


def add_fix(local: Host, run: RunDir, base: str, fix: TaskState) -> str | None:
    """Return a commit with one more fix on top of a base, or None when they conflict.

    The same base and fix always give the same commit.
    """
    assert fix.commit is not None
    if fix.base == base:
        pin_commit(local, run, f"base-{fix.task.slug}", fix.commit)
        return fix.commit
    merged = git.run(local, run.repo, "merge-tree", "--write-tree", base, fix.commit, git_command=git.ISOLATED_GIT)
    if merged.code:
        return None
    tree = merged.text.split("\n")[0]
    committed_at = git.run_checked(
        local, run.repo, "show", "--no-patch", "--format=%ct", fix.commit, git_command=git.ISOLATED_GIT
    )
    args = ["commit-tree", tree, "-p", base, "-m", f"{fix.task.title}\n\nMngr-Task: {fix.task.slug}"]
    dates = (f"{name}={committed_at} +0000" for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"))
    dated_git = git.add_variables(git.ISOLATED_GIT, *dates)
    commit = git.run_checked(local, run.repo, *AUTHOR_ARGS, *args, git_command=dated_git)
    pin_commit(local, run, f"base-{fix.task.slug}", commit)
    return commit
