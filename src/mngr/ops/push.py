"""`push`: merge this branch into an agent's branch, in its work dir."""

from __future__ import annotations

import os

from mngr import git, shell, store
from mngr.errors import MngrError
from mngr.model import Record
from mngr.ops import find, sandbox
from mngr.ops.transfer import remove_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.git import Repo
    from mngr.host import Host
    from mngr.model import AgentRecord
    from mngr.ops.context import Context

# git on an agent's work dir: its hooks are not ours to run.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "submodule.recurse=false")
_SENT = "refs/mngr/pushed"


class Pushed(Record):
    """What the agent's branch has now."""

    id: str
    name: str
    branch: str | None
    commit: str
    how: str  # up_to_date | fast_forward | merge


def push(ctx: Context, name: str, *, stash: bool = False) -> Pushed:
    """Fast-forward where possible, else a merge commit; a conflict is undone."""
    host, record = find.find(ctx, name)
    if record.transfer not in ("worktree", "mirror"):
        raise MngrError(
            f"{record.name} has no repository of its own ({record.transfer})",
            f"copy files: mngr push SRC {record.name}:PATH",
        )
    repo = git.find_repo(ctx.local, ctx.cwd)
    if repo is None or repo.head is None:
        raise MngrError(
            f"{ctx.cwd} is not in a git repository with commits",
            "go to the repository whose work shall be pushed",
        )
    work = record.work_dir
    if not os.path.isdir(work):
        raise MngrError(f"the work dir of {record.name} is gone: {work}", f"mngr destroy {record.name}")
    there = sandbox.inside(host, record)
    guard = _QUIET if record.transfer == "worktree" else git.guard(there, work)
    if git.run(there, work, "symbolic-ref", "--quiet", "HEAD").text != f"refs/heads/{record.branch}":
        raise MngrError(
            f"{record.name} is not on its branch {record.branch!r}",
            f"look: mngr exec {record.name} -- git status",
        )
    dirty = git.status(there, work, guard)
    if dirty and not stash:
        raise MngrError(
            f"{record.name} has uncommitted changes: {dirty[0][1]}", "let it commit them, or use --stash"
        )
    if record.transfer == "mirror":
        _send(ctx.local, there, repo, work, guard)
    elif git.run(there, work, "cat-file", "-e", repo.head).code:
        raise MngrError(
            f"{record.name} works in another repository: {record.source}", "go there and push from there"
        )
    before = git.must(there, work, "rev-parse", "HEAD")
    kept = _stash(there, work, guard) if dirty else None
    try:
        how = _merge(there, repo, record, guard)
    except BaseException:
        _unstash(there, work, kept, guard)
        raise
    if not _unstash(there, work, kept, guard):
        git.must(there, work, *guard, "reset", "--quiet", "--hard", before)
        _unstash(there, work, kept, guard)
        raise MngrError(
            f"the work conflicts with uncommitted changes of {record.name}; undone",
            "let it commit them, then push again",
        )
    store.add_event(host, record.id, "pushed", commit=repo.head, how=how)
    return Pushed(
        id=record.id,
        name=record.name,
        branch=record.branch,
        commit=git.must(there, work, "rev-parse", "HEAD"),
        how=how,
    )


def _send(local: Host, there: Host, repo: Repo, work: str, guard: tuple[str, ...]) -> None:
    """The commits into a repository of the agent's own, under a name that goes again; its hooks do not run."""
    flags = ("--quiet", "--no-verify", "--no-recurse-submodules", "--no-follow-tags", "--no-signed")
    receiver = "--receive-pack=" + shell.join(["git", *guard, "receive-pack"])
    argv = ["push", *flags, *([receiver] if there.is_here else []), "--", there.git_url(work, guard)]
    result = git.run(local, repo.root, *git.THROUGH, *argv, f"+{repo.head}:{_SENT}")
    if result.code:
        raise MngrError(f"the commits could not be sent: {result.problem}", "see: mngr doctor")


def _stash(host: Host, work: str, guard: tuple[str, ...]) -> str | None:
    """Put uncommitted changes aside; the commit that holds them. Worktrees share one list, so its top says nothing."""
    before = git.run(host, work, "rev-parse", "--verify", "--quiet", "refs/stash").text
    git.must(host, work, *guard, "stash", "push", "--quiet", "--include-untracked")
    after = git.run(host, work, "rev-parse", "--verify", "--quiet", "refs/stash").text
    return after if after != before else None


def _unstash(host: Host, work: str, kept: str | None, guard: tuple[str, ...]) -> bool:
    """Bring the changes back; where they do not fit, nothing of them is left in the way."""
    if kept is None:
        return True
    if git.run(host, work, *guard, "stash", "apply", "--quiet", "--index", kept).code:
        git.must(host, work, *guard, "reset", "--quiet", "--hard")
        new = git.run(host, work, "ls-tree", "-r", "-z", "--name-only", f"{kept}^3").text
        remove_files(host, work, [name for name in new.split("\0") if name])
        return False
    listed = git.run(host, work, "stash", "list", "--format=%H").text.split("\n")
    if kept in listed:
        git.run(host, work, *guard, "stash", "drop", "--quiet", f"stash@{{{listed.index(kept)}}}")
    return True


def _merge(host: Host, repo: Repo, record: AgentRecord, guard: tuple[str, ...]) -> str:
    work = record.work_dir
    assert repo.head is not None
    try:
        if git.run(host, work, "merge-base", "--is-ancestor", repo.head, "HEAD").code == 0:
            return "up_to_date"
        ahead = git.run(host, work, "merge-base", "--is-ancestor", "HEAD", repo.head).code == 0
        message = f"Merge {repo.branch or repo.head[:12]} into {record.branch}"
        result = git.run(host, work, *guard, "merge", "--quiet", "--no-edit", "-m", message, repo.head)
        if result.code == 0:
            return "fast_forward" if ahead else "merge"
        conflicts = git.run(host, work, *guard, "diff", "--name-only", "--diff-filter=U").text.split("\n")
        git.run(host, work, *guard, "merge", "--abort")
        if any(conflicts):
            raise MngrError(
                f"the work conflicts with that of {record.name} in {', '.join(conflicts[:3])}; undone",
                f"tell the agent to merge it: mngr message {record.name} -m …",
            )
        raise MngrError(f"merging failed: {result.problem}", "nothing was changed")
    finally:
        if record.transfer == "mirror":
            git.run(host, work, *guard, "update-ref", "-d", _SENT)
