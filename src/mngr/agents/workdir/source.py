"""What an agent is made from: a directory, another agent's work, or a repository somewhere else."""

from __future__ import annotations

import os

from mngr.agents.inspect import find
from mngr.agents.sandbox import bubblewrap
from mngr.base import names, paths, shell
from mngr.base.errors import MngrError, UsageError
from mngr.base.lock import Lock
from mngr.base.model import TRANSFERS, Record
from mngr.host import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.host.git import Repo
    from mngr.host.protocol import Host


def are_near(one: Host, other: Host) -> bool:
    """Whether both have the same files, so that a path of one means the same on the other."""
    return one is other or (one.is_here and other.is_here)


class Source(Record):
    """Where the project is."""

    host: Host  # where it is
    path: str  # the directory that was named
    repo: Repo | None  # the one it is in
    kept: str  # what stays when a worktree goes: the repository's main one, or the directory
    project: str
    transfers: tuple[str, ...] = TRANSFERS  # those that make sense
    is_bare: bool = False  # a copy of a remote repository, or a pipeline's own: it has no files
    files: str | None = None  # the project that a bare one lies in: its settings and ignored files count
    by: tuple[str, ...] = (
        git.GIT
    )  # what to run as git there: with a guard when the repository is an agent's own
    near: Repo | None = None  # a copy of the repository on the agent's host, where that is another
    form: str | None = None  # how its objects are named, where that is known

    @property
    def top(self) -> str:
        """The directory that holds the project's files."""
        return self.repo.root if self.repo is not None else self.path


def find_source(ctx: Context, host: Host, given: str | None) -> Source:
    """What `--from` names, else the current directory; raises MngrError when there is no such thing."""
    if given is None:
        return _directory(ctx.local, ctx.cwd)
    if given.startswith("@"):
        return _on_host(ctx, given)
    if "://" in given or "@" in given.partition(":")[0] != given:
        return _remote(ctx, given)
    path = os.path.abspath(os.path.join(ctx.cwd, os.path.expanduser(given)))
    if os.path.isdir(path):
        return _directory(ctx.local, path)
    if names.is_name(given):
        return _agent(ctx, given)
    raise MngrError(
        f"--from: there is no directory, agent or address {given!r}", "give a path, an agent's name or a URL"
    )


def choose_transfer(source: Source, host: Host, given: str | None) -> str:
    """The mode asked for, else the one that fits best; UsageError when it does not fit."""
    fitting = source.transfers
    if not are_near(source.host, host):  # a worktree shares its repository, so it is where that is
        fitting = tuple(mode for mode in fitting if mode != "worktree")
    mode = given or ("copy" if source.repo is None else fitting[0])
    if mode not in fitting:
        hint = "one of: " + ", ".join(fitting)
        if not are_near(source.host, host) and mode == "worktree":
            hint += f"; or name a repository there: --from @{host.name}:/PATH"
        raise UsageError(f"--transfer cannot be {mode!r} here", hint)
    return mode


def _on_host(ctx: Context, given: str) -> Source:
    """`@HOST:/PATH`, a directory on a host."""
    wanted = find.address(ctx, given)
    if wanted.name is not None or wanted.host is None or not wanted.path:
        raise UsageError(f"--from: {given!r} names no directory on a host", "write @HOST:/PATH")
    host = ctx.host(*((wanted.provider, wanted.host) if wanted.provider else ctx.find_host(wanted.host)))
    there = host.run(["sh", "-c", 'cd -- "$1" && pwd -P', "cd", wanted.path])
    if there.code:
        raise MngrError(f"--from: there is no directory {wanted.path!r} on {host.name}", "check the path")
    return _directory(host, there.text)


def _directory(host: Host, path: str) -> Source:
    repo = git.find_repo(host, path)
    if (
        repo is None
        and host.is_here
        and os.path.isfile(os.path.join(path, "HEAD"))
        and git.is_bare(host, path)
    ):
        return _bare(host, path)
    kept = path
    if repo is not None:
        main, name = os.path.split(repo.common_dir)
        kept = main if name == ".git" else repo.root
    return Source(host=host, path=path, repo=repo, kept=kept, project=os.path.basename(kept) or "root")


def _bare(host: Host, path: str) -> Source:
    """A repository without files of its own: what a pipeline keeps the work of agents in, inside of the project."""
    head = git.resolve(host, path, "HEAD")
    if head is None:  # it may have no branches, only commits
        head = git.run(host, path, "for-each-ref", "--count=1", "--format=%(objectname)").text or None
    repo = git.Repo(root=path, common_dir=path, head=head, branch=None)
    files = paths.find_project_root(os.path.dirname(path))
    return Source(
        host=host, path=path, repo=repo, kept=path, project=os.path.basename(files or path), transfers=("mirror",),
        is_bare=True, files=files,
    )  # fmt: skip


def kept_repo(host: Host, source: str | None) -> Repo | None:
    """The repository that an agent was made from; in place of a run's own, once that is deleted, the project's. None: it is gone."""
    for path in () if source is None else (source, project_of(source)):
        if os.path.isdir(path):
            repo = git.find_repo(host, path)
            return _bare(host, path).repo if repo is None and git.is_bare(host, path) else repo
    return None


def project_of(source: str) -> str:
    """The project with the files and settings of what an agent was made from: a run's own repository lies in it."""
    root, found, _ = source.rpartition("/.mngr/runs/")
    return root if found else source


def _agent(ctx: Context, name: str) -> Source:
    """Another agent's work dir. One with a repository of its own shares it with nobody, and nothing of it runs here."""
    host, record = find.find(ctx, name)
    if not host.has(record.work_dir):
        raise MngrError(
            f"the work dir of {record.name} is gone: {record.work_dir}", f"mngr destroy {record.name}"
        )
    host = bubblewrap.inside(host, record)
    source = _directory(host, record.work_dir).replace(project=record.project)
    if record.transfer != "mirror":
        return source
    return source.replace(transfers=("mirror", "copy"), by=git.guard(record.work_dir))


def _remote(ctx: Context, url: str) -> Source:
    """A bare copy of a remote repository, kept and brought up to date."""
    import hashlib

    host = ctx.local

    ctx.home.make()
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
            shell.without_password(f"--from: cannot fetch {url}: {git.complaint(result)}"),
            "check the address and your access to it",
        )
    head = git.run(host, place, "rev-parse", "--verify", "HEAD")
    if head.code:
        raise MngrError(f"--from: {url} has no commits", "choose a branch with --branch BASE:NEW")
    branch = git.run(host, place, "symbolic-ref", "--short", "HEAD").text or None
    repo = git.Repo(root=place, common_dir=place, head=head.text, branch=branch)
    project = url.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
    return Source(
        host=host,
        path=place,
        repo=repo,
        kept=place,
        project=project or "root",
        transfers=("mirror",),
        is_bare=True,
    )
