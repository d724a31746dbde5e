"""`push`: merge this branch into an agent's branch, in its work dir."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.diff import gone
from mngr.agents.inspect.targets import LIVE, record_of
from mngr.agents.sandbox import bubblewrap
from mngr.agents.sync.quarantine import check_line
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Record
from mngr.base.shell import Result
from mngr.host import git, scripts, store
from mngr.host.protocol import Host

LONGEST = 3600.0  # seconds
_SENT = "refs/mngr/pushed"  # merge.sh takes it away again
_GIVEN = "refs/mngr/given"
_FLAGS = ("--quiet", "--no-verify", "--no-recurse-submodules", "--no-follow-tags", "--no-signed")


class Pushed(Record):
    """What the agent's branch has now."""

    id: str
    name: str
    branch: str | None
    commit: str
    how: str  # up_to_date | fast_forward | merge


def push(ctx: Context, name: str, *, stash: bool = False) -> Pushed:
    """Fast-forward where possible, else a merge commit; a conflict is undone."""
    seen = find.get_seen(ctx, name)
    host, record = seen.host, record_of(seen)
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
    there = bubblewrap.inside(host, record)
    if record.transfer == "mirror" or not there.is_here:
        _send(ctx.local, there, repo.root, repo.head, record)
    message = f"Merge {repo.branch or repo.head[:12]} into {record.branch}"
    argv = ["sh", "-c", scripts.program("merge.sh"), "merge.sh"]
    argv += ["own" if record.transfer == "mirror" else "shared", record.work_dir, record.branch or ""]
    result = there.run([*argv, repo.head, "stash" if stash else "keep", message], timeout=LONGEST)
    if result.code:
        raise _refusal(record, result, is_live=seen.state.state in LIVE)
    how, _, commit = result.text.partition(" ")
    store.add_event(host, record.id, "pushed", commit=repo.head, how=how)
    return Pushed(id=record.id, name=record.name, branch=record.branch, commit=commit, how=how)


def give(ctx: Context, name: str, repo: str, commit: str) -> None:
    """Bring a commit of a repository here into an agent's own, where nothing is changed by it; the next one takes its place."""
    seen = find.get_seen(ctx, name)
    record = record_of(seen)
    if record.transfer != "mirror":
        raise MngrError(f"{record.name} has no repository of its own ({record.transfer})")
    _send(ctx.local, bubblewrap.inside(seen.host, record), repo, commit, record, _GIVEN)


def _send(local: Host, there: Host, repo: str, commit: str, record: AgentRecord, ref: str = _SENT) -> None:
    """The commits under a name that goes again; hooks of the repository do not run."""
    way = git.reach(there, record.work_dir, "receive-pack", git.guard(record.work_dir))
    argv = ["git", "-C", repo, *git.THROUGH, "push", *_FLAGS, *way, f"+{commit}:{ref}"]
    result = local.run(argv, timeout=LONGEST)
    if result.code == 0:
        return
    check_line(there, result)
    if not there.has(record.work_dir):
        raise gone(record)
    raise MngrError(f"the commits could not be sent: {git.complaint(result)}", git.hint(result.problem))


def _refusal(record: AgentRecord, result: Result, *, is_live: bool) -> MngrError:
    """Why merge.sh did not merge; nothing was changed then."""
    name, where = record.name, result.text.split("\n")
    if result.code == 9:
        return gone(record)
    if result.code == 7:
        return MngrError(
            f"{name} is not on its branch {record.branch!r}", f"look: mngr exec {name} -- git status"
        )
    if result.code == 6:
        return MngrError(
            f"{name} works in another repository: {record.source}", "go there and push from there"
        )
    if result.code == 5:
        return MngrError(f"{name} has uncommitted changes: {where[0]}", "let it commit them, or use --stash")
    if result.code == 4:
        here = f"merge its work here (mngr pull {name}, then git merge {record.branch}) and push again"
        return MngrError(
            f"the work conflicts with that of {name} in {', '.join(where)}; undone",
            f"tell the agent to merge it: mngr message {name} -m …; or {here}" if is_live else here,
        )
    if result.code == 3:
        return MngrError(
            f"the work conflicts with uncommitted changes of {name}; undone",
            "let it commit them, then push again",
        )
    if result.code == 2:
        return MngrError(
            f"{name} has a repository inside its own, {where[0]}, which --stash does not touch",
            "let it commit its changes, then push again",
        )
    return MngrError(f"merging failed: {result.problem}", f"look: mngr exec {name} -- git status")
