"""`push`: merge this branch into an agent's branch, in its work dir."""

from __future__ import annotations

from mngr import git, store
from mngr.errors import MngrError
from mngr.model import Record
from mngr.ops import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.git import Repo
    from mngr.host import Host
    from mngr.model import AgentRecord
    from mngr.ops.context import Context

# git on an agent's work dir: its hooks are not ours to run.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "submodule.recurse=false")


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
        raise MngrError(f"{record.name} has no repository of its own ({record.transfer})", f"copy files: mngr push SRC {record.name}:PATH")
    repo = git.find_repo(ctx.local, ctx.cwd)
    if repo is None or repo.head is None:
        raise MngrError(f"{ctx.cwd} is not in a git repository with commits", "go to the repository whose work shall be pushed")
    work = record.work_dir
    dirty = git.status(host, work)
    if dirty and not stash:
        raise MngrError(f"{record.name} has uncommitted changes: {dirty[0][1]}", "let it commit them, or use --stash")
    if record.transfer == "mirror":
        spec = f"+{repo.head}:refs/mngr/pushed"
        result = git.run(ctx.local, repo.root, "push", "--quiet", "--no-verify", "--no-recurse-submodules", "--", work, spec)
        if result.code:
            raise MngrError(f"the commits could not be sent: {result.problem}", "see: mngr doctor")
    elif git.run(host, work, "cat-file", "-e", repo.head).code:
        raise MngrError(f"{record.name} works in another repository: {record.source}", "go there and push from there")
    if dirty:
        git.must(host, work, *_QUIET, "stash", "push", "--quiet", "--include-untracked")
    try:
        how = _merge(host, repo, record)
    finally:
        if dirty and git.run(host, work, *_QUIET, "stash", "pop", "--quiet", "--index").code:
            raise MngrError(f"the stashed changes of {record.name} do not apply any more", "they are kept: git stash list in its work dir")
    store.add_event(host, record.id, "pushed", commit=repo.head, how=how)
    return Pushed(id=record.id, name=record.name, branch=record.branch, commit=git.must(host, work, "rev-parse", "HEAD"), how=how)


def _merge(host: Host, repo: Repo, record: AgentRecord) -> str:
    work = record.work_dir
    assert repo.head is not None
    if git.run(host, work, "merge-base", "--is-ancestor", repo.head, "HEAD").code == 0:
        return "up_to_date"
    how = "fast_forward" if git.run(host, work, "merge-base", "--is-ancestor", "HEAD", repo.head).code == 0 else "merge"
    message = f"Merge {repo.branch or repo.head[:12]} into {record.branch}"
    result = git.run(host, work, *_QUIET, "merge", "--quiet", "--no-edit", "-m", message, repo.head)
    if result.code:
        conflicts = git.run(host, work, "diff", "--name-only", "--diff-filter=U").text.split("\n")
        git.run(host, work, *_QUIET, "merge", "--abort")
        if any(conflicts):
            raise MngrError(
                f"the work conflicts with that of {record.name} in {', '.join(conflicts[:3])}; undone",
                f"tell the agent to merge it: mngr message {record.name} -m …",
            )
        raise MngrError(f"merging failed: {result.problem}", "nothing was changed")
    return how
