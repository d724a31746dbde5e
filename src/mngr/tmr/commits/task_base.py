"""The commit that later tasks start from: the base, and on it the fixes of shared causes that were confirmed."""

from __future__ import annotations

from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import pin_commit
from mngr.mapreduce.run_state import TaskState

AUTHOR_ARGS = ("-c", "user.name=mngr", "-c", "user.email=mngr@localhost")


def add_fix(local: Host, run: RunDir, base: str, fix: TaskState) -> str | None:
    """A base with one more fix on it, always the same commit for the same two; None when they do not go together."""
    assert fix.commit is not None
    if fix.base == base:
        pin_commit(local, run, f"base-{fix.task.slug}", fix.commit)
        return fix.commit
    merged = git.run(local, run.repo, "merge-tree", "--write-tree", base, fix.commit)
    if merged.code:
        return None
    tree = merged.text.split("\n")[0]
    at = git.run_checked(local, run.repo, "show", "--no-patch", "--format=%ct", fix.commit)
    words = ["commit-tree", tree, "-p", base, "-m", f"{fix.task.title}\n\nMngr-Task: {fix.task.slug}"]
    dated = ["env", f"GIT_AUTHOR_DATE={at} +0000", f"GIT_COMMITTER_DATE={at} +0000", "git"]
    commit = git.run_checked(local, run.repo, *AUTHOR_ARGS, *words, by=dated)
    pin_commit(local, run, f"base-{fix.task.slug}", commit)
    return commit
