"""What an agent is made from: a directory, another agent's work, or a repository somewhere else."""

from __future__ import annotations

import os

from mngr import git, names, shell
from mngr.errors import MngrError, UsageError
from mngr.lock import Lock
from mngr.model import TRANSFERS, Record
from mngr.ops import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.git import Repo
    from mngr.host import Host
    from mngr.ops.context import Context


class Source(Record):
    """Where the project is."""

    path: str  # the directory that was named
    repo: Repo | None  # the one it is in
    kept: str  # what stays when a worktree goes: the repository's main one, or the directory
    project: str
    transfers: tuple[str, ...] = TRANSFERS  # those that make sense
    is_bare: bool = False  # a copy of a remote repository: it has no files
    guard: tuple[str, ...] = ()  # what git needs when the repository is an agent's own

    @property
    def top(self) -> str:
        """The directory that holds the project's files."""
        return self.repo.root if self.repo is not None else self.path


def find_source(ctx: Context, host: Host, given: str | None) -> Source:
    """What `--from` names, else the current directory; raises MngrError when there is no such thing."""
    if given is None:
        return _directory(host, ctx.cwd)
    if "://" in given or "@" in given.partition(":")[0] != given:
        return _remote(ctx, host, given)
    path = os.path.abspath(os.path.join(ctx.cwd, os.path.expanduser(given)))
    if os.path.isdir(path):
        return _directory(host, path)
    if names.is_name(given):
        return _agent(ctx, given)
    raise MngrError(
        f"--from: there is no directory, agent or address {given!r}", "give a path, an agent's name or a URL"
    )


def choose_transfer(source: Source, given: str | None) -> str:
    """The mode asked for, else the one that fits best; UsageError when it does not fit."""
    mode = given or ("copy" if source.repo is None else source.transfers[0])
    if mode not in source.transfers:
        raise UsageError(f"--transfer cannot be {mode!r} here", "one of: " + ", ".join(source.transfers))
    return mode


def _directory(host: Host, path: str) -> Source:
    repo = git.find_repo(host, path)
    kept = path
    if repo is not None:
        main, name = os.path.split(repo.common_dir)
        kept = main if name == ".git" else repo.root
    return Source(path=path, repo=repo, kept=kept, project=os.path.basename(kept) or "root")


def _agent(ctx: Context, name: str) -> Source:
    """Another agent's work dir. One with a repository of its own shares it with nobody, and nothing of it runs here."""
    host, record = find.find(ctx, name)
    if not os.path.isdir(record.work_dir):
        raise MngrError(
            f"the work dir of {record.name} is gone: {record.work_dir}", f"mngr destroy {record.name}"
        )
    source = _directory(host, record.work_dir).replace(project=record.project)
    if record.transfer != "mirror":
        return source
    return source.replace(transfers=("mirror", "copy"), guard=git.guard(host, record.work_dir))


def _remote(ctx: Context, host: Host, url: str) -> Source:
    """A bare copy of a remote repository, kept and brought up to date."""
    import hashlib

    ctx.home.make()
    place = os.path.join(ctx.home.cache, "repos", hashlib.sha256(url.encode()).hexdigest()[:16] + ".git")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with Lock(place + ".lock", timeout=600):
        if os.path.isdir(place):
            result = git.run(host, place, "fetch", "--quiet", "--prune", "origin")
        else:
            host.run(["rm", "-rf", "--", place + ".new"])
            result = host.run(["git", "clone", "--quiet", "--mirror", "--", url, place + ".new"])
            if result.code == 0:
                os.rename(place + ".new", place)
    if result.code:
        raise MngrError(
            shell.without_password(f"--from: cannot fetch {url}: {result.problem}"),
            "check the address and your access to it",
        )
    head = git.run(host, place, "rev-parse", "--verify", "HEAD")
    if head.code:
        raise MngrError(f"--from: {url} has no commits", "choose a branch with --branch BASE:NEW")
    branch = git.run(host, place, "symbolic-ref", "--short", "HEAD").text or None
    repo = git.Repo(root=place, common_dir=place, head=head.text, branch=branch)
    project = url.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
    return Source(
        path=place, repo=repo, kept=place, project=project or "root", transfers=("mirror",), is_bare=True
    )
