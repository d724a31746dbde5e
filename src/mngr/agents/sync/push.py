"""`push`: merges the user's current branch into an agent's branch, in the agent's work dir."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.diff import make_missing_work_dir_error
from mngr.agents.inspect.for_each_agent import LIVE_STATES, get_record
from mngr.agents.sandbox import bubblewrap
from mngr.agents.sync.quarantine import check_connection
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Struct
from mngr.base.shell import ProcessResult
from mngr.base.trust import agent_directories
from mngr.host import git, record_store, scripts
from mngr.host.protocol import Host

PUSH_TIMEOUT = 3600.0  # seconds
_PUSHED_REF = "refs/mngr/pushed"  # merge.sh deletes it
_SENT_COMMIT_REF = "refs/mngr/given"
_PUSH_FLAGS = ("--quiet", "--no-verify", "--no-recurse-submodules", "--no-follow-tags", "--no-signed")


class PushResult(Struct):
    """The state of the agent's branch after a push."""

    id: str
    name: str
    branch: str | None
    commit: str
    how: str  # up_to_date | fast_forward | merge


def push_branch(ctx: Context, name: str, *, stash: bool = False) -> PushResult:
    """Fast-forward the agent's branch if possible, else create a merge commit. Undo the merge on a conflict."""
    observed = find.observe_agent(ctx, name)
    host, record = observed.host, get_record(observed)
    if record.transfer not in ("worktree", "mirror"):
        raise MngrError(
            f"{record.name} does not have its own repository, because it was created with --transfer {record.transfer}",
            f"copy files instead: mngr push SRC {record.name}:PATH",
        )
    agent_directories.refuse_agents_directory(ctx.cwd)
    repo = git.find_repo(ctx.local_host, ctx.cwd, git.SAFE_GIT)
    if repo is None or repo.head is None:
        raise MngrError(
            f"{ctx.cwd} is not in a git repository with commits, so there is nothing to push",
            f"go to your repository and push there: cd DIR && mngr push {record.name}",
        )
    sandboxed_host = bubblewrap.open_sandboxed_host(host, record)
    if record.transfer == "mirror" or not sandboxed_host.is_local:
        _push_commit(ctx.local_host, sandboxed_host, repo.root, repo.head, record, _PUSHED_REF, git.GIT)
    message = f"Merge {repo.branch or repo.head[:12]} into {record.branch}"
    argv = ["sh", "-c", scripts.read_program("merge.sh"), "merge.sh"]
    argv += ["own" if record.transfer == "mirror" else "shared", record.work_dir, record.branch or ""]
    result = sandboxed_host.run([*argv, repo.head, "stash" if stash else "keep", message], timeout=PUSH_TIMEOUT)
    if result.code:
        raise _make_merge_error(record, result, is_live=observed.state.state in LIVE_STATES)
    how, _, commit = result.text.partition(" ")
    record_store.add_event(host, record.id, "pushed", commit=repo.head, how=how)
    return PushResult(id=record.id, name=record.name, branch=record.branch, commit=commit, how=how)


def send_commit(ctx: Context, name: str, repo: str, commit: str) -> None:
    """Send a local commit to an agent's own repository, without changing its branches or files.

    The next commit that is sent replaces it.
    """
    observed = find.observe_agent(ctx, name)
    record = get_record(observed)
    if record.transfer != "mirror":
        raise MngrError(
            f"{record.name} does not have its own repository, because it was created with --transfer {record.transfer}",
            "create the agent with: --transfer mirror",
        )
    _push_commit(
        ctx.local_host,
        bubblewrap.open_sandboxed_host(observed.host, record),
        repo,
        commit,
        record,
        _SENT_COMMIT_REF,
        git.SAFE_GIT,  # The repository is one that mngr made for a run, and it is bare.
    )


def _push_commit(
    local: Host,
    sandboxed_host: Host,
    repo: str,
    commit: str,
    record: AgentRecord,
    ref: str,
    git_command: Sequence[str],
) -> None:
    """Push a commit to a temporary ref of the agent's repository. No hooks of the local repository run."""
    remote_args = git.build_remote_args(
        sandboxed_host, record.work_dir, "receive-pack", git.build_guarded_git(record.work_dir)
    )
    protocol = "file" if sandboxed_host.is_local and git_command != git.GIT else "ext"
    argv = [
        *git.allow_protocol(git_command, protocol),
        "-C",
        repo,
        "push",
        *_PUSH_FLAGS,
        *remote_args,
        f"+{commit}:{ref}",
    ]
    result = local.run(argv, timeout=PUSH_TIMEOUT)
    if result.code == 0:
        return
    check_connection(sandboxed_host, result)
    if not sandboxed_host.has_path(record.work_dir):
        raise make_missing_work_dir_error(record)
    raise MngrError(
        f"git could not send the commits to {record.name}: {git.describe_failure(result)}",
        git.suggest_hint(result.error_line, sandboxed_host),
    )


def _make_merge_error(record: AgentRecord, result: ProcessResult, *, is_live: bool) -> MngrError:
    """Return the error for the exit code of merge.sh, which has changed nothing."""
    name, paths = record.name, result.text.split("\n")
    if result.code == 9:
        return make_missing_work_dir_error(record)
    if result.code == 7:
        return MngrError(
            f"{name} has not checked out its branch {record.branch!r}",
            f"see what it has checked out: mngr exec {name} -- git status",
        )
    if result.code == 6:
        return MngrError(
            f"{name} works in another repository: {record.source}",
            f"push from there: cd {record.source} && mngr push {name}",
        )
    if result.code == 5:
        return MngrError(
            f"{name} has uncommitted changes: {paths[0]}",
            f"ask it to commit them, or stash them first: mngr push {name} --stash",
        )
    if result.code == 4:
        manual_hint = f"merge its work here, then push again: mngr pull {name} && git merge {record.branch}"
        return MngrError(
            f"your commits conflict with those of {name} in {', '.join(paths)}; mngr undid the merge",
            f"ask the agent to merge them: mngr message {name} -m TEXT; or {manual_hint}" if is_live else manual_hint,
        )
    if result.code == 3:
        return MngrError(
            f"your commits conflict with uncommitted changes of {name}; mngr undid the merge",
            f"ask the agent to commit them: mngr message {name} -m TEXT; then push again: mngr push {name}",
        )
    if result.code == 2:
        return MngrError(
            f"{name} has a nested repository with changes, {paths[0]}, which --stash does not include",
            f"ask the agent to commit them: mngr message {name} -m TEXT; then push again: mngr push {name}",
        )
    return MngrError(
        f"git could not merge your commits into the branch of {name}: {result.error_line}",
        f"see the state of its repository: mngr exec {name} -- git status",
    )
