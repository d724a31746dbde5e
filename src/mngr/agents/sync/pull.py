"""`pull`: fetches an agent's commits and outputs, and checks them before they reach the user's repository."""

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
from mngr.base.trust import agent_directories, project_files
from mngr.host import agent_origin, git, record_store
from mngr.host.git import Repo
from mngr.host.protocol import Host


class PullResult(Struct):
    """The result of a pull: the commits and outputs that arrived."""

    id: str
    name: str
    branch: str | None
    commit: str | None
    commits: int  # how many were new here; in a shared repository, new to the current branch
    outputs: int
    outputs_dir: str | None
    merged: bool


class PullTarget(Struct):
    """Where a pipeline stores its agents' work, instead of in the user's branches."""

    repo: str
    ref: str  # the full ref name; it is set to the agent's commit, whatever it was before
    outputs_dir: str
    branch: str | None = None  # None: the agent's own branch


def pull_agent(ctx: Context, name: str, *, merge: bool = False, into: PullTarget | None = None) -> PullResult:
    """Fetch the agent's branch and outputs into the repository of the current directory, or to the target `into`."""
    host, record = find.get_agent(ctx, name)
    if into is not None:
        return _pull_to_target(ctx, host, record, into)
    agent_directories.refuse_agents_directory(ctx.cwd)
    repo = git.find_repo(ctx.local_host, ctx.cwd, git.SAFE_GIT)
    commit, new_commits, merged = None, 0, False
    if record.base is not None and record.branch is not None and record.transfer != "copy":
        if repo is None:
            raise MngrError(
                f"{ctx.cwd} is not in a git repository, so there is no place for the agent's commits",
                f"go to your repository and pull there: cd DIR && mngr pull {record.name}",
            )
        commit, new_commits = _pull_commits(ctx, host, repo, record)
        merged = merge and _merge(ctx, repo, record, commit)
    elif merge:
        raise MngrError(
            f"{record.name} has no branch to merge, because it was created with --transfer {record.transfer}",
            f"copy its files instead: mngr pull {record.name}:PATH",
        )
    root = repo.root if repo is not None else paths.find_project_root(ctx.cwd) or ctx.cwd
    count, outputs_dir = _pull_outputs(ctx, host, root, record)
    record_store.add_event(host, record.id, "pulled", commit=commit, commits=new_commits, outputs=count)
    return PullResult(
        id=record.id,
        name=record.name,
        branch=record.branch,
        commit=commit,
        commits=new_commits,
        outputs=count,
        outputs_dir=outputs_dir,
        merged=merged,
    )


def _pull_to_target(ctx: Context, host: Host, record: AgentRecord, target: PullTarget) -> PullResult:
    """Fetch the agent's commit and outputs to a pipeline's target."""
    commit, new_commits = None, 0
    if record.base is not None and record.branch is not None and record.transfer != "copy":
        if not os.path.isdir(target.repo):
            raise MngrError(
                f"the repository of the run no longer exists: {target.repo}", "start a new run: mngr tmr run"
            )
        repo = git.Repo(root=target.repo, common_dir=target.repo, head=record.base, branch=None)
        commit = _fetch_checked_commit(ctx, host, repo, record.replace(branch=target.branch or record.branch))
        git.run_checked(ctx.local_host, repo.root, "update-ref", target.ref, commit, git_command=git.ISOLATED_GIT)
        new_commits = git.count_commits(ctx.local_host, repo.root, [commit, f"^{record.base}"], git.ISOLATED_GIT)
    count = _receive_outputs(ctx, host, record, target.outputs_dir)
    record_store.add_event(host, record.id, "pulled", commit=commit, commits=new_commits, outputs=count)
    return PullResult(
        id=record.id,
        name=record.name,
        branch=record.branch,
        commit=commit,
        commits=new_commits,
        outputs=count,
        outputs_dir=target.outputs_dir,
        merged=False,
    )


def _pull_commits(ctx: Context, host: Host, repo: Repo, record: AgentRecord) -> tuple[str, int]:
    """Update the user's copy of the agent's branch, and return its commit and the number of new commits."""
    local = ctx.local_host
    assert record.branch is not None
    source = _find_shared_repo(local, record) if host.is_local and record.transfer in ("worktree", "none") else None
    if source is not None and os.path.realpath(source.common_dir) == os.path.realpath(repo.common_dir):
        # In a shared repository the commits are here already.
        commit = git.find_commit(local, repo.root, f"refs/heads/{record.branch}", git.SAFE_GIT)
        if commit is None:
            raise MngrError(
                f"the branch {record.branch!r} no longer exists",
                f"list the branches: mngr exec {record.name} -- git branch",
            )
        return commit, git.count_commits(local, repo.root, [commit, f"^{repo.head or record.base}"], git.SAFE_GIT)
    commit = _fetch_checked_commit(ctx, host, repo, record)
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        old_commit = git.find_commit(local, repo.root, f"refs/heads/{record.branch}", git.SAFE_GIT)
        if old_commit is not None and not host.is_local and not agent_origin.is_agent_branch(ctx.home, record):
            raise MngrError(
                f"{host.name} reports that {record.name} is on your branch {record.branch!r}, but mngr did not give it that branch",
                f"look at the commits without changing your branch: git fetch mngr::{record.name} {record.branch}",
            )
        _fast_forward(local, repo, record, old_commit, commit)
    return commit, git.count_commits(local, repo.root, [commit, f"^{old_commit or record.base}"], git.SAFE_GIT)


def _fetch_checked_commit(ctx: Context, host: Host, repo: Repo, record: AgentRecord) -> str:
    """Fetch the agent's branch through the quarantine and return its commit."""
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
                f"list its branches: mngr exec {record.name} -- git branch",
            ) from None
        raise MngrError(
            f"mngr refused the commits of {record.name}: {error.message}; your repository is unchanged",
            error.hint or f"see the commits: mngr exec {record.name} -- git log --stat",
        ) from None


def _find_shared_repo(local: Host, record: AgentRecord) -> Repo | None:
    """Return the repository that holds the agent's branch, even if the work dir is gone."""
    repo = git.find_repo(local, record.work_dir, git.SAFE_GIT)
    return repo or (git.find_repo(local, record.source, git.SAFE_GIT) if record.source else None)


def _fast_forward(local: Host, repo: Repo, record: AgentRecord, old_commit: str | None, commit: str) -> None:
    """Move the user's branch forward to the commit. Raise MngrError if that is not a fast-forward."""
    branch = record.branch
    assert branch is not None
    if old_commit == commit:
        return
    if (
        old_commit is not None
        and git.run(local, repo.root, "merge-base", "--is-ancestor", old_commit, commit, git_command=git.SAFE_GIT).code
    ):
        raise MngrError(
            f"your branch {branch!r} has commits that the agent's branch does not have",
            f"rename your branch: git branch -m {branch} NEW; or give your commits to the agent: git switch {branch} && mngr push {record.name}",
        )
    worktree = _find_checkout(local, repo, branch)
    if worktree is None:
        git.run_checked(
            local,
            repo.root,
            "update-ref",
            "-m",
            "mngr pull",
            f"refs/heads/{branch}",
            commit,
            old_commit or "",
            git_command=git.GIT,
        )
        return
    if git.list_dirty_files(local, worktree, git.GIT):
        raise MngrError(
            f"the branch {branch!r} is checked out at {worktree} and has uncommitted changes there",
            f"commit or stash them first: git -C {worktree} stash",
        )
    git.run_checked(
        local, worktree, "-c", "core.hooksPath=/dev/null", "merge", "--quiet", "--ff-only", commit, git_command=git.GIT
    )


def _find_checkout(local: Host, repo: Repo, branch: str) -> str | None:
    """Return the worktree that has the branch checked out, or None."""
    rows = git.run_checked(local, repo.root, "worktree", "list", "--porcelain", "-z", git_command=git.SAFE_GIT).split(
        "\0\0"
    )
    for row in rows:
        lines = row.split("\0")
        if f"branch refs/heads/{branch}" in lines:
            return next(line.removeprefix("worktree ") for line in lines if line.startswith("worktree "))
    return None


def _merge(ctx: Context, repo: Repo, record: AgentRecord, commit: str) -> bool:
    """Merge the commit into the current branch. Return False if it is merged already, and undo a failed merge."""
    local = ctx.local_host
    if repo.branch is None:
        raise MngrError(
            "--merge needs a branch, but HEAD is detached", "check out the branch to merge into: git switch BRANCH"
        )
    if git.run(local, repo.root, "merge-base", "--is-ancestor", commit, "HEAD", git_command=git.SAFE_GIT).code == 0:
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
        git_command=git.GIT,
    )
    if result.code:
        conflicts = git.run(local, repo.root, "diff", "--name-only", "--diff-filter=U", git_command=git.GIT).text.split(
            "\n"
        )
        git.run(local, repo.root, "merge", "--abort", git_command=git.GIT)
        if any(conflicts):
            raise MngrError(
                f"merging {record.branch} conflicts in {', '.join(conflicts[:3])}; mngr undid the merge",
                f"merge by hand and resolve the conflicts: git merge {record.branch}",
            )
        raise MngrError(
            f"merging {record.branch} failed: {result.error_line}", "commit or stash your changes first: git stash"
        )
    return True


def _pull_outputs(ctx: Context, host: Host, root: str, record: AgentRecord) -> tuple[int, str | None]:
    """Copy the agent's outputs to `.mngr/outputs/NAME/`, which git ignores. Return their number and directory."""
    outputs_dir, known_id = root, record_store.find_id(ctx.home, record.name)
    # A remote host could give its agent the name of another agent.
    name = record.name if known_id in (record.id, None) else record.id
    for part in (".mngr", "outputs", name):
        outputs_dir = os.path.join(outputs_dir, part)
        if os.path.islink(outputs_dir):
            raise MngrError(
                f"{outputs_dir} is a symbolic link, so the outputs would land elsewhere",
                f"remove the link, then pull again: rm {outputs_dir}",
            )
    count = _receive_outputs(ctx, host, record, outputs_dir)
    if not os.path.isdir(outputs_dir):
        return 0, None
    project_files.write_new_project_file(root, os.path.join(".mngr", "outputs", ".gitignore"), b"*\n")
    return count, outputs_dir


def _receive_outputs(ctx: Context, host: Host, record: AgentRecord, outputs_dir: str) -> int:
    """Copy the agent's outputs into a directory and return the number of files."""
    source = os.path.join(host.home.agent_dir(record.id), "outputs")
    limits = transfer_limits.get_limits(ctx.load_project_settings(None))
    return files.receive_files(bubblewrap.open_sandboxed_host(host, record), source, ["."], outputs_dir, limits)
