"""Copies a repository from one host to another with git's own protocol, which sends only missing objects."""

from __future__ import annotations

import os

from mngr.agents.workdir.source import is_same_machine
from mngr.agents.workdir.transfer import write_index_tree
from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.host import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.workdir.source import ProjectSource
    from mngr.host.git import Repo
    from mngr.host.protocol import Host

_BRANCHES_AND_TAGS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_INDEX_REF = "refs/mngr/index"
_INIT_BARE_REPO = (
    '[ -d "$1" ] || { mkdir -p -- "${1%/*}" && git init --quiet --bare --template= --object-format="$2" -- "$1"; }'
)


def copy_source_to_host(
    ctx: Context, source: ProjectSource, host: Host, transfer: str, base: str | None, *, needs_index: bool = False
) -> ProjectSource:
    """Return the source with a copy of its repository on the host, if a mirror on that host needs one.

    With `needs_index`, a copy of a repository on another host also has the objects of the repository's index.
    """
    if transfer != "mirror" or source.repo is None or is_same_machine(source.host, host):
        return source
    if not source.host.is_local:
        with _IndexRef(source if needs_index else None) as index_tree:
            source = _copy_source_here(ctx, source, source.repo, base, index_tree)
        if host.is_local:
            return source
    repo = source.repo
    assert repo is not None
    cached_repo = os.path.join(host.home.cache, "sources", _compute_cache_key(source.durable_path) + ".git")
    specs = [*_BRANCHES_AND_TAGS, f"+{base}:refs/mngr/base"] if base else [*_BRANCHES_AND_TAGS]
    flags = (
        "--quiet",
        "--no-verify",
        "--prune",
        "--no-recurse-submodules",
        "--no-follow-tags",
        "--no-signed",
    )
    object_format = source.object_format or git.get_object_format(source.host, repo)
    remote_command = (
        "sh",
        "-c",
        f'set -- "$3" "$1" "$2"; {_INIT_BARE_REPO} >&2 && exec git -c receive.autogc=false "$3" "$1"',
        "git",
        object_format,
    )
    argv = [*git.allow_protocol(source.git_command, "ext"), "-C", repo.root, "push", *flags, "--"]
    argv += [host.build_git_url(cached_repo, remote_command), *specs]
    lock_path = os.path.join(
        ctx.home.cache, f"push-{_compute_cache_key(source.durable_path)}-{host.provider}-{host.name}.lock"
    )
    with Lock(lock_path, timeout=600):
        result = source.host.run(argv, timeout=3600.0)
    if result.code:
        host.has_path(cached_repo)  # This raises Unreachable if the host does not answer.
        reason = git.describe_failure(result)
        raise MngrError(
            f"git could not send the repository to {host.name}: {reason}", git.suggest_hint(result.error_line, host)
        )
    host_copy = repo.replace(root=cached_repo, common_dir=cached_repo)
    return source.replace(host_copy=host_copy, object_format=object_format)


class _IndexRef:
    """While it is entered, a ref of the source's repository leads to the tree of its index, so that git can fetch it."""

    def __init__(self, source: ProjectSource | None) -> None:
        self._source = source

    def __enter__(self) -> str | None:
        if self._source is None:
            return None
        index_tree = write_index_tree(self._source)
        self._update_ref(_INDEX_REF, index_tree)
        return index_tree

    def __exit__(self, *_: object) -> None:
        if self._source is not None:
            self._update_ref("-d", _INDEX_REF)

    def _update_ref(self, *words: str) -> None:
        assert self._source is not None
        source = self._source
        git.run_checked(source.host, source.root_dir, "update-ref", *words, git_command=source.git_command)


def _copy_source_here(
    ctx: Context, source: ProjectSource, repo: Repo, base: str | None, index_tree: str | None
) -> ProjectSource:
    """Return the source with a local cached copy of its remote repository, fetched with all checks."""
    from mngr.agents.sync import quarantine, transfer_limits

    local = ctx.local_host
    key = _compute_cache_key(f"{source.host.provider}/{source.host.name}:{source.durable_path}")
    cached_repo = os.path.join(ctx.home.cache, "repos", key + ".git")
    object_format = git.get_object_format(source.host, repo)
    os.makedirs(os.path.dirname(cached_repo), mode=0o700, exist_ok=True)
    with Lock(cached_repo + ".lock", timeout=600):
        result = local.run(["sh", "-c", _INIT_BARE_REPO, "init", cached_repo, object_format])
        if result.code:
            raise MngrError(f"git init failed: {result.error_line}", git.suggest_hint(result.error_line))
        specs = [*_BRANCHES_AND_TAGS, f"+{base}:refs/mngr/base"] if base else [*_BRANCHES_AND_TAGS]
        if index_tree:
            specs.append(f"+{_INDEX_REF}:{_INDEX_REF}")
        limits = transfer_limits.get_limits(ctx.load_project_settings(None))
        quarantine.fetch_with_limits(local, cached_repo, source.host, repo.common_dir, *specs, limits=limits)
        os.utime(cached_repo)  # gc deletes copies by the time of their last use.
    local_repo = repo.replace(root=cached_repo, common_dir=cached_repo)
    return source.replace(
        host=local,
        path=cached_repo,
        repo=local_repo,
        is_bare=True,
        git_command=git.SAFE_GIT,
        origin=source,
        index_tree=index_tree,
    )


def _compute_cache_key(text: str) -> str:
    """Return a key for the copy of a source. It includes machine and user, because clients must not share a copy."""
    import hashlib

    full_text = f"{os.uname().nodename}:{os.getuid()}:{text}"
    return hashlib.sha256(full_text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
