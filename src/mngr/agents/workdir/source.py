"""The source of an agent's project: a directory, another agent's work dir, or a remote repository."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.agents.sandbox import bubblewrap
from mngr.base import names_and_addresses, paths, shell
from mngr.base.errors import MngrError, UsageError
from mngr.base.lock import Lock
from mngr.base.model import TRANSFER_MODES, Struct
from mngr.base.trust import agent_directories
from mngr.host import git, record_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.base.model import AgentRecord
    from mngr.host.git import Repo
    from mngr.host.protocol import Host


def is_same_machine(first: Host, second: Host) -> bool:
    """True when both hosts have the same files, so that a path means the same on both."""
    return first is second or (first.is_local and second.is_local)


class ProjectSource(Struct):
    """The project that an agent gets a copy of."""

    host: Host  # the host that has the project
    path: str  # the directory that the user named
    repo: Repo | None  # the repository that contains `path`
    durable_path: str  # the main worktree, which stays when `path` is deleted; or the directory
    project: str
    transfers: tuple[str, ...] = TRANSFER_MODES  # the transfer modes that this source allows
    is_bare: bool = False  # a clone of a remote repository or a run's own repository, without files
    project_dir: str | None = None  # the project around a bare repository, for settings and carried files
    git_command: tuple[str, ...] = git.GIT  # for its work tree; guarded if the repository belongs to an agent
    host_copy: Repo | None = None  # a copy of the repository on the agent's host, if that is another host
    object_format: str | None = None  # sha1 or sha256, if known
    origin: ProjectSource | None = None  # the source on another host or in a sandbox, of which this is a copy
    index_tree: str | None = None  # the tree of the origin's index, which the copy has, too

    @property
    def root_dir(self) -> str:
        """The directory that holds the project's files."""
        return self.repo.root if self.repo is not None else self.path


def get_source(ctx: Context, from_option: str | None) -> ProjectSource:
    """Return the source that `--from` names, or the current directory. Raise MngrError if it does not exist."""
    if from_option is None:
        return _get_local_source(ctx, ctx.cwd)
    if from_option.startswith("@"):
        return _get_host_source(ctx, from_option)
    if _is_remote_address(from_option):
        return _get_remote_source(ctx, from_option)
    path = os.path.abspath(os.path.join(ctx.cwd, os.path.expanduser(from_option)))
    if os.path.isdir(path):
        return _get_local_source(ctx, path)
    if names_and_addresses.is_agent_name(from_option):
        return _get_agent_source(*find.get_agent(ctx, from_option))
    raise MngrError(
        f"--from: {from_option!r} is not a directory, an agent or a URL",
        "give the path of a directory, the name of an agent or the URL of a repository",
    )


def _is_remote_address(text: str) -> bool:
    """True for a URL, and for git's short form `USER@HOST:PATH`."""
    if "://" in text:
        return True
    before_colon, colon, _ = text.partition(":")
    return bool(colon) and "@" in before_colon


def choose_transfer(source: ProjectSource, host: Host | None, requested: str | None) -> str:
    """Return the requested transfer mode, or else the best one. Raise UsageError if it is not possible.

    `host` is None if mngr has yet to create the host.
    """
    possible = source.transfers
    is_elsewhere = host is None or not is_same_machine(source.host, host)
    if is_elsewhere:  # A worktree must be on the same machine as its repository.
        possible = tuple(mode for mode in possible if mode != "worktree")
    if requested:
        mode = requested
    else:
        mode = "copy" if source.repo is None else possible[0]
    if mode not in possible:
        hint = "use one of: " + ", ".join(possible)
        if host is not None and is_elsewhere and mode == "worktree":
            hint += f"; or use a repository on that host: --from @{host.name}:/PATH"
        raise UsageError(f"--transfer {mode} does not work with this source and host", hint)
    return mode


def _get_host_source(ctx: Context, text: str) -> ProjectSource:
    """Return the source at `@HOST:/PATH`, a directory on a host."""
    address = find.parse_address(ctx, text)
    if address.name is not None or address.host is None or not address.path:
        raise UsageError(f"--from: {text!r} does not name a directory on a host", "write @HOST:/PATH")
    provider, host_name = address.provider, address.host
    if not provider:
        provider, host_name = ctx.get_host_key(address.host)
    host = ctx.get_host(provider, host_name)
    result = host.run(["sh", "-c", 'cd -- "$1" && pwd -P', "cd", address.path])
    if result.code:
        raise MngrError(
            f"--from: there is no directory {address.path!r} on {host.name}",
            "give the absolute path of a directory there: @HOST:/PATH",
        )
    return _get_local_source(ctx, result.text) if host.is_local else _get_directory_source(host, result.text)


def _get_directory_source(host: Host, path: str) -> ProjectSource:
    """Return the source for a directory, with the repository that contains it."""
    repo = git.find_repo(host, path, git.SAFE_GIT)
    may_be_bare = repo is None and host.is_local and os.path.isfile(os.path.join(path, "HEAD"))
    if may_be_bare and git.is_bare(host, path, git.SAFE_GIT):
        return _get_bare_source(host, path)
    durable_path = path
    if repo is not None:
        main_dir, name = os.path.split(repo.common_dir)
        durable_path = main_dir if name == ".git" else repo.root
    return ProjectSource(
        host=host, path=path, repo=repo, durable_path=durable_path, project=os.path.basename(durable_path) or "root"
    )


def _get_bare_source(host: Host, path: str) -> ProjectSource:
    """Return the source for a bare repository, such as the one in which a run keeps its agents' work."""
    head = git.find_commit(host, path, "HEAD", git.SAFE_GIT)
    if head is None:  # A run's repository may have commits without any branch.
        words = ("for-each-ref", "--count=1", "--format=%(objectname)")
        head = git.run(host, path, *words, git_command=git.SAFE_GIT).text or None
    repo = git.Repo(root=path, common_dir=path, head=head, branch=None)
    project_dir = paths.find_project_root(os.path.dirname(path))
    return ProjectSource(
        host=host,
        path=path,
        repo=repo,
        durable_path=path,
        project=os.path.basename(project_dir or path),
        transfers=("mirror",),
        is_bare=True,
        project_dir=project_dir,
        git_command=git.SAFE_GIT,
    )


def find_source_repo(host: Host, source: str | None) -> Repo | None:
    """Return the repository that an agent was created from, or None if it is gone.

    If a run's own repository is deleted, return the repository of its project.
    """
    if source is None:
        return None
    for path in (source, get_project_dir(source)):
        if not os.path.isdir(path):
            continue
        repo = git.find_repo(host, path, git.SAFE_GIT)
        if repo is None and git.is_bare(host, path, git.SAFE_GIT):
            return _get_bare_source(host, path).repo
        return repo
    return None


def get_project_dir(source: str) -> str:
    """Return the project directory of a source. A run's own repository is inside its project."""
    root, separator, _ = source.rpartition("/.mngr/runs/")
    return root if separator else source


def _get_local_source(ctx: Context, path: str) -> ProjectSource:
    """Return the source for a directory of this machine, which can be inside the work dir of a sandboxed agent."""
    agent = agent_directories.find_sandboxed_agent(path)
    if agent is None:
        return _get_directory_source(ctx.local_host, path)
    if not agent.owns_work_dir or agent.home != os.path.realpath(ctx.home.root):
        raise agent_directories.make_refusal_error(path, agent)
    return _get_agent_source(ctx.local_host, record_store.get_record(ctx.local_host, agent.id))


def _get_agent_source(host: Host, record: AgentRecord) -> ProjectSource:
    """Return another agent's work dir as a source.

    An agent's own repository allows no worktrees, and git runs guarded in it, so that its settings run nothing.
    """
    if not host.has_path(record.work_dir):
        raise MngrError(
            f"the work dir of {record.name} no longer exists: {record.work_dir}",
            f"destroy the agent: mngr destroy {record.name}",
        )
    host = bubblewrap.open_sandboxed_host(host, record)
    source = _get_directory_source(host, record.work_dir).replace(project=record.project)
    if record.transfer != "mirror":
        return source
    return source.replace(transfers=("mirror", "copy"), git_command=git.build_guarded_git(record.work_dir))


def _get_remote_source(ctx: Context, url: str) -> ProjectSource:
    """Return a cached bare clone of a remote repository, after updating it."""
    import hashlib

    host = ctx.local_host

    ctx.home.create()
    clone_dir = os.path.join(ctx.home.cache, "repos", hashlib.sha256(url.encode()).hexdigest()[:16] + ".git")
    os.makedirs(os.path.dirname(clone_dir), exist_ok=True)
    with Lock(clone_dir + ".lock", timeout=600):
        if os.path.isdir(clone_dir):
            result = git.run(
                host, clone_dir, "--git-dir=.", "fetch", "--quiet", "--prune", "origin", git_command=git.GIT
            )
            os.utime(clone_dir)  # gc deletes clones by the time of their last use.
        else:
            host.run(["rm", "-rf", "--", clone_dir + ".new"])
            result = host.run(["git", "clone", "--quiet", "--mirror", "--", url, clone_dir + ".new"])
            if result.code == 0:
                os.rename(clone_dir + ".new", clone_dir)
    if result.code:
        raise MngrError(
            shell.redact_password(f"--from: cannot fetch {url}: {git.describe_failure(result)}"),
            "check the URL and your access to it: git ls-remote URL",
        )
    head = git.run(host, clone_dir, "rev-parse", "--verify", "HEAD", git_command=git.SAFE_GIT)
    if head.code:
        raise MngrError(
            f"--from: the default branch of {url} has no commits", "choose a branch that has commits: --branch BASE:NEW"
        )
    branch = git.run(host, clone_dir, "symbolic-ref", "--short", "HEAD", git_command=git.SAFE_GIT).text or None
    repo = git.Repo(root=clone_dir, common_dir=clone_dir, head=head.text, branch=branch)
    project = url.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
    return ProjectSource(
        host=host,
        path=clone_dir,
        repo=repo,
        durable_path=clone_dir,
        project=project or "root",
        transfers=("mirror",),
        is_bare=True,
        git_command=git.SAFE_GIT,
    )
