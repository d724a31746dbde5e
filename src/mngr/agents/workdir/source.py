"""What an agent is made from: a directory, another agent's work, or a repository somewhere else."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.agents.sandbox import bubblewrap
from mngr.base import names, paths, shell
from mngr.base.errors import MngrError, UsageError
from mngr.base.lock import Lock
from mngr.base.model import TRANSFER_MODES, Struct
from mngr.host import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.host.git import Repo
    from mngr.host.protocol import Host


def is_same_machine(one: Host, other: Host) -> bool:
    """Whether both have the same files, so that a path of one means the same on the other."""
    return one is other or (one.is_local and other.is_local)


class ProjectSource(Struct):
    """Where the project is."""

    host: Host  # where it is
    path: str  # the directory that was named
    repo: Repo | None  # the one it is in
    durable_path: str  # what stays when a worktree goes: the repository's main one, or the directory
    project: str
    transfers: tuple[str, ...] = TRANSFER_MODES  # those that make sense
    is_bare: bool = False  # a copy of a remote repository, or a pipeline's own: it has no files
    project_dir: str | None = None  # the project that a bare one lies in: its settings and ignored files count
    git_command: tuple[str, ...] = (
        git.GIT
    )  # what to run as git there: with a guard when the repository is an agent's own
    host_copy: Repo | None = None  # a copy of the repository on the agent's host, where that is another
    object_format: str | None = None  # how its objects are named, where that is known

    @property
    def root_dir(self) -> str:
        """The directory that holds the project's files."""
        return self.repo.root if self.repo is not None else self.path


def get_source(ctx: Context, host: Host, given: str | None) -> ProjectSource:
    """What `--from` names, else the current directory; raises MngrError when there is no such thing."""
    if given is None:
        return _get_directory_source(ctx.local_host, ctx.cwd)
    if given.startswith("@"):
        return _get_host_source(ctx, given)
    if "://" in given or "@" in given.partition(":")[0] != given:
        return _get_remote_source(ctx, given)
    path = os.path.abspath(os.path.join(ctx.cwd, os.path.expanduser(given)))
    if os.path.isdir(path):
        return _get_directory_source(ctx.local_host, path)
    if names.is_agent_name(given):
        return _get_agent_source(ctx, given)
    raise MngrError(
        f"--from: there is no directory, agent or address {given!r}", "give a path, an agent's name or a URL"
    )


def choose_transfer(source: ProjectSource, host: Host, given: str | None) -> str:
    """The mode asked for, else the one that fits best; UsageError when it does not fit."""
    fitting = source.transfers
    if not is_same_machine(source.host, host):  # a worktree shares its repository, so it is where that is
        fitting = tuple(mode for mode in fitting if mode != "worktree")
    mode = given or ("copy" if source.repo is None else fitting[0])
    if mode not in fitting:
        hint = "one of: " + ", ".join(fitting)
        if not is_same_machine(source.host, host) and mode == "worktree":
            hint += f"; or name a repository there: --from @{host.name}:/PATH"
        raise UsageError(f"--transfer cannot be {mode!r} here", hint)
    return mode


def _get_host_source(ctx: Context, given: str) -> ProjectSource:
    """`@HOST:/PATH`, a directory on a host."""
    wanted = find.parse_address(ctx, given)
    if wanted.name is not None or wanted.host is None or not wanted.path:
        raise UsageError(f"--from: {given!r} names no directory on a host", "write @HOST:/PATH")
    host = ctx.get_host(*((wanted.provider, wanted.host) if wanted.provider else ctx.get_host_key(wanted.host)))
    there = host.run(["sh", "-c", 'cd -- "$1" && pwd -P', "cd", wanted.path])
    if there.code:
        raise MngrError(f"--from: there is no directory {wanted.path!r} on {host.name}", "check the path")
    return _get_directory_source(host, there.text)


def _get_directory_source(host: Host, path: str) -> ProjectSource:
    repo = git.find_repo(host, path)
    if repo is None and host.is_local and os.path.isfile(os.path.join(path, "HEAD")) and git.is_bare(host, path):
        return _get_bare_source(host, path)
    kept = path
    if repo is not None:
        main, name = os.path.split(repo.common_dir)
        kept = main if name == ".git" else repo.root
    return ProjectSource(host=host, path=path, repo=repo, durable_path=kept, project=os.path.basename(kept) or "root")


def _get_bare_source(host: Host, path: str) -> ProjectSource:
    """A repository without files of its own: what a pipeline keeps the work of agents in, inside of the project."""
    head = git.find_commit(host, path, "HEAD")
    if head is None:  # it may have no branches, only commits
        head = git.run(host, path, "for-each-ref", "--count=1", "--format=%(objectname)").text or None
    repo = git.Repo(root=path, common_dir=path, head=head, branch=None)
    files = paths.find_project_root(os.path.dirname(path))
    return ProjectSource(
        host=host, path=path, repo=repo, durable_path=path, project=os.path.basename(files or path), transfers=("mirror",),
        is_bare=True, project_dir=files,
    )  # fmt: skip


def find_source_repo(host: Host, source: str | None) -> Repo | None:
    """The repository that an agent was made from; in place of a run's own, once that is deleted, the project's. None: it is gone."""
    for path in () if source is None else (source, get_project_dir(source)):
        if os.path.isdir(path):
            repo = git.find_repo(host, path)
            return _get_bare_source(host, path).repo if repo is None and git.is_bare(host, path) else repo
    return None


def get_project_dir(source: str) -> str:
    """The project with the files and settings of what an agent was made from: a run's own repository lies in it."""
    root, found, _ = source.rpartition("/.mngr/runs/")
    return root if found else source


def _get_agent_source(ctx: Context, name: str) -> ProjectSource:
    """Another agent's work dir. One with a repository of its own shares it with nobody, and nothing of it runs here."""
    host, record = find.get_agent(ctx, name)
    if not host.has_path(record.work_dir):
        raise MngrError(f"the work dir of {record.name} is gone: {record.work_dir}", f"mngr destroy {record.name}")
    host = bubblewrap.open_sandboxed_host(host, record)
    source = _get_directory_source(host, record.work_dir).replace(project=record.project)
    if record.transfer != "mirror":
        return source
    return source.replace(transfers=("mirror", "copy"), git_command=git.build_guarded_git(record.work_dir))


def _get_remote_source(ctx: Context, url: str) -> ProjectSource:
    """A bare copy of a remote repository, kept and brought up to date."""
    import hashlib

    host = ctx.local_host

    ctx.home.create()
    place = os.path.join(ctx.home.cache, "repos", hashlib.sha256(url.encode()).hexdigest()[:16] + ".git")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with Lock(place + ".lock", timeout=600):
        if os.path.isdir(place):
            result = git.run(host, place, "fetch", "--quiet", "--prune", "origin")
            os.utime(place)  # gc goes by the time it was last used
        else:
            host.run(["rm", "-rf", "--", place + ".new"])
            result = host.run(["git", "clone", "--quiet", "--mirror", "--", url, place + ".new"])
            if result.code == 0:
                os.rename(place + ".new", place)
    if result.code:
        raise MngrError(
            shell.redact_password(f"--from: cannot fetch {url}: {git.describe_failure(result)}"),
            "check the address and your access to it",
        )
    head = git.run(host, place, "rev-parse", "--verify", "HEAD")
    if head.code:
        raise MngrError(f"--from: {url} has no commits", "choose a branch with --branch BASE:NEW")
    branch = git.run(host, place, "symbolic-ref", "--short", "HEAD").text or None
    repo = git.Repo(root=place, common_dir=place, head=head.text, branch=branch)
    project = url.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
    return ProjectSource(
        host=host,
        path=place,
        repo=repo,
        durable_path=place,
        project=project or "root",
        transfers=("mirror",),
        is_bare=True,
    )
