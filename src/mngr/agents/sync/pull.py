"""`pull`: an agent's commits and outputs, checked before they land here."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.sandbox import bubblewrap
from mngr.agents.sync import files, quarantine, transfer_limits
from mngr.base import paths
from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Struct
from mngr.host import git, store
from mngr.host.git import Repo
from mngr.host.protocol import Host


class PullResult(Struct):
    """What came."""

    id: str
    name: str
    branch: str | None
    commit: str | None
    commits: int  # how many were new here; of a shared repository, new to the current branch
    outputs: int
    outputs_dir: str | None
    merged: bool


class PullTarget(Struct):
    """Where a pipeline keeps what its agents made, instead of the user's branches."""

    repo: str
    ref: str  # the whole name; it is moved to where the agent's branch is, wherever it was
    outputs_dir: str  # a directory
    branch: str | None = None  # another than the agent's own


def pull_agent(ctx: Context, name: str, *, merge: bool = False, into: PullTarget | None = None) -> PullResult:
    """Bring the agent's branch and outputs into the repository of the current directory, or `into` another place."""
    host, record = find.get_agent(ctx, name)
    if into is not None:
        return _pull_to_target(ctx, host, record, into)
    repo = git.find_repo(ctx.local_host, ctx.cwd)
    commit, new, merged = None, 0, False
    if record.base is not None and record.branch is not None and record.transfer != "copy":
        if repo is None:
            raise MngrError(f"{ctx.cwd} is not in a git repository", "go to the repository that shall have the work")
        commit, new = _pull_commits(ctx, host, repo, record)
        merged = merge and _merge(ctx, repo, record, commit)
    elif merge:
        raise MngrError(
            f"{record.name} has no branch ({record.transfer})",
            f"copy files with: mngr pull {record.name}:PATH",
        )
    root = repo.root if repo is not None else paths.find_project_root(ctx.cwd) or ctx.cwd
    count, place = _pull_outputs(ctx, host, root, record)
    store.add_event(host, record.id, "pulled", commit=commit, commits=new, outputs=count)
    return PullResult(
        id=record.id, name=record.name, branch=record.branch, commit=commit, commits=new, outputs=count,
        outputs_dir=place, merged=merged,
    )  # fmt: skip


def _pull_to_target(ctx: Context, host: Host, record: AgentRecord, into: PullTarget) -> PullResult:
    commit, new = None, 0
    if record.base is not None and record.branch is not None and record.transfer != "copy":
        if not os.path.isdir(into.repo):
            raise MngrError(f"{into.repo} is not there any more", "it was made when the run began")
        repo = git.Repo(root=into.repo, common_dir=into.repo, head=record.base, branch=None)
        commit = _fetch_checked_commit(ctx, host, repo, record.replace(branch=into.branch or record.branch))
        git.run_checked(ctx.local_host, repo.root, "update-ref", into.ref, commit)
        new = git.count_commits(ctx.local_host, repo.root, [commit, f"^{record.base}"])
    count = _receive_outputs(ctx, host, record, into.outputs_dir)
    store.add_event(host, record.id, "pulled", commit=commit, commits=new, outputs=count)
    return PullResult(
        id=record.id, name=record.name, branch=record.branch, commit=commit, commits=new, outputs=count,
        outputs_dir=into.outputs_dir, merged=False,
    )  # fmt: skip


def _pull_commits(ctx: Context, host: Host, repo: Repo, record: AgentRecord) -> tuple[str, int]:
    local = ctx.local_host
    assert record.branch is not None
    source = _find_shared_repo(local, record) if host.is_local and record.transfer in ("worktree", "none") else None
    if source is not None and os.path.realpath(source.common_dir) == os.path.realpath(repo.common_dir):
        commit = git.find_commit(local, repo.root, f"refs/heads/{record.branch}")  # shared: they are here already
        if commit is None:
            raise MngrError(f"there is no branch {record.branch!r}", f"look: mngr exec {record.name} -- git branch")
        return commit, git.count_commits(local, repo.root, [commit, f"^{repo.head or record.base}"])
    commit = _fetch_checked_commit(ctx, host, repo, record)
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        old = git.find_commit(local, repo.root, f"refs/heads/{record.branch}")
        if old is not None and not host.is_local and not store.is_agent_branch(ctx.home, record):
            raise MngrError(
                f"{host.name} says that {record.name} is on your branch {record.branch!r}, which was not made so from here",
                f"look at it first: git fetch mngr::{record.name} {record.branch}",
            )
        _fast_forward(local, repo, record, old, commit)
    return commit, git.count_commits(local, repo.root, [commit, f"^{old or record.base}"])


def _fetch_checked_commit(ctx: Context, host: Host, repo: Repo, record: AgentRecord) -> str:
    """The commit of the agent's branch, checked and in our repository."""
    assert record.branch is not None
    try:
        return quarantine.fetch_checked_branch(
            ctx.local_host,
            repo,
            bubblewrap.open_sandboxed_host(host, record),
            record.work_dir,
            record.branch,
            transfer_limits.get_limits(ctx.load_project_settings(None)),
        )
    except quarantine.CommitsRefused as error:
        if "couldn't find remote ref" in error.message:
            raise MngrError(
                f"{record.name} no longer has the branch {record.branch!r}",
                f"look: mngr exec {record.name} -- git branch",
            ) from None
        raise MngrError(f"the work of {record.name} was refused: {error.message}", error.hint) from None


def _find_shared_repo(local: Host, record: AgentRecord) -> Repo | None:
    """The repository that holds the agent's branch, also when its work dir is gone."""
    found = git.find_repo(local, record.work_dir)
    return found or (git.find_repo(local, record.source) if record.source else None)


def _fast_forward(local: Host, repo: Repo, record: AgentRecord, old: str | None, commit: str) -> None:
    """Move a branch of the user's forward, or refuse."""
    branch = record.branch
    assert branch is not None
    if old == commit:
        return
    if old is not None and git.run(local, repo.root, "merge-base", "--is-ancestor", old, commit).code:
        raise MngrError(
            f"the branch {branch!r} here has commits the agent's does not have",
            f"rename yours (git branch -m {branch} NEW), or go to it and push it first: mngr push {record.name}",
        )
    where = _find_checkout(local, repo, branch)
    if where is None:
        git.run_checked(local, repo.root, "update-ref", "-m", "mngr pull", f"refs/heads/{branch}", commit, old or "")
        return
    if git.list_dirty_files(local, where):
        raise MngrError(f"{branch!r} is checked out at {where} with uncommitted changes", "commit or stash them first")
    git.run_checked(local, where, "-c", "core.hooksPath=/dev/null", "merge", "--quiet", "--ff-only", commit)


def _find_checkout(local: Host, repo: Repo, branch: str) -> str | None:
    rows = git.run_checked(local, repo.root, "worktree", "list", "--porcelain", "-z").split("\0\0")
    for row in rows:
        lines = row.split("\0")
        if f"branch refs/heads/{branch}" in lines:
            return next(line.removeprefix("worktree ") for line in lines if line.startswith("worktree "))
    return None


def _merge(ctx: Context, repo: Repo, record: AgentRecord, commit: str) -> bool:
    local = ctx.local_host
    if repo.branch is None:
        raise MngrError("HEAD is detached here", "check out the branch that shall have the work")
    if git.run(local, repo.root, "merge-base", "--is-ancestor", commit, "HEAD").code == 0:
        return False
    result = git.run(
        local,
        repo.root,
        "merge",
        "--quiet",
        "--no-edit",
        "-m",
        f"Merge {record.branch} of {record.name}",
        commit,
    )
    if result.code:
        conflicts = git.run(local, repo.root, "diff", "--name-only", "--diff-filter=U").text.split("\n")
        git.run(local, repo.root, "merge", "--abort")
        if any(conflicts):
            raise MngrError(
                f"merging {record.branch} conflicts in {', '.join(conflicts[:3])}; undone",
                f"git merge {record.branch}",
            )
        raise MngrError(f"merging {record.branch} failed: {result.error_line}", "commit or stash your changes first")
    return True


def _pull_outputs(ctx: Context, host: Host, root: str, record: AgentRecord) -> tuple[int, str | None]:
    """Files the agent left as its output, into `.mngr/outputs/NAME/`, which git never sees."""
    place, known = root, store.find_id(ctx.home, record.name)
    name = record.name if known in (record.id, None) else record.id  # a host may call its agent what it likes
    for part in (".mngr", "outputs", name):
        place = os.path.join(place, part)
        if os.path.islink(place):
            raise MngrError(f"{place} is a link, so outputs would land elsewhere", "take it away, then pull again")
    count = _receive_outputs(ctx, host, record, place)
    if not os.path.isdir(place):
        return 0, None
    ignore = os.path.join(os.path.dirname(place), ".gitignore")
    if not os.path.exists(ignore):
        with open(ignore, "w", encoding="utf-8") as file:
            file.write("*\n")
    return count, place


def _receive_outputs(ctx: Context, host: Host, record: AgentRecord, place: str) -> int:
    source = os.path.join(host.home.agent_dir(record.id), "outputs")
    most = transfer_limits.get_limits(ctx.load_project_settings(None))
    return files.receive_files(bubblewrap.open_sandboxed_host(host, record), source, ["."], place, most)
