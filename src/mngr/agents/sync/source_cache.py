"""A repository of one host, brought to another through git's own protocol: only what is missing there travels."""

from __future__ import annotations

import os

from mngr.agents.workdir.source import is_same_machine
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
_INIT_BARE_REPO = (
    '[ -d "$1" ] || { mkdir -p -- "${1%/*}" && git init --quiet --bare --template= --object-format="$2" -- "$1"; }'
)


def copy_source_to_host(
    ctx: Context, source: ProjectSource, host: Host, transfer: str, base: str | None
) -> ProjectSource:
    """The source with a copy of its repository on the host where a mirror of it shall be made."""
    if transfer != "mirror" or source.repo is None or is_same_machine(source.host, host):
        return source
    if not source.host.is_local:
        source = _copy_source_here(ctx, source, source.repo, base)
        if host.is_local:
            return source
    repo = source.repo
    assert repo is not None
    place = os.path.join(host.home.cache, "sources", _compute_cache_key(source.durable_path) + ".git")
    specs = [*_BRANCHES_AND_TAGS, f"+{base}:refs/mngr/base"] if base else [*_BRANCHES_AND_TAGS]
    flags = (
        "--quiet",
        "--no-verify",
        "--prune",
        "--no-recurse-submodules",
        "--no-follow-tags",
        "--no-signed",
    )
    form = source.object_format or git.get_object_format(source.host, repo)
    there = (
        "sh",
        "-c",
        f'set -- "$3" "$1" "$2"; {_INIT_BARE_REPO} >&2 && exec git -c receive.autogc=false "$3" "$1"',
        "git",
        form,
    )
    argv = [*source.git_command, "-C", repo.root, *git.ALLOW_EXT_PROTOCOL, "push", *flags, "--"]
    argv += [host.build_git_url(place, there), *specs]
    waits = os.path.join(
        ctx.home.cache, f"push-{_compute_cache_key(source.durable_path)}-{host.provider}-{host.name}.lock"
    )
    with Lock(waits, timeout=600):
        result = source.host.run(argv, timeout=3600.0)
    if result.code:
        host.has_path(place)  # raises where it was the host that could not be reached
        why = git.describe_failure(result)
        raise MngrError(f"the repository could not be sent to {host.name}: {why}", git.suggest_hint(result.error_line))
    near = repo.replace(root=place, common_dir=place)
    return source.replace(host_copy=near, object_format=form)


def _copy_source_here(ctx: Context, source: ProjectSource, repo: Repo, base: str | None) -> ProjectSource:
    """A copy in our cache of a repository that is on a host, checked like everything that comes from there."""
    from mngr.agents.sync import quarantine, transfer_limits

    local = ctx.local_host
    key = _compute_cache_key(f"{source.host.provider}/{source.host.name}:{source.durable_path}")
    place = os.path.join(ctx.home.cache, "repos", key + ".git")
    form = git.get_object_format(source.host, repo)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    with Lock(place + ".lock", timeout=600):
        made = local.run(["sh", "-c", _INIT_BARE_REPO, "init", place, form])
        if made.code:
            raise MngrError(f"git init failed: {made.error_line}", git.suggest_hint(made.error_line))
        specs = [*_BRANCHES_AND_TAGS, f"+{base}:refs/mngr/base"] if base else [*_BRANCHES_AND_TAGS]
        most = transfer_limits.get_limits(ctx.load_project_settings(None))
        quarantine.fetch_with_limits(local, place, source.host, repo.common_dir, *specs, limits=most)
        os.utime(place)  # gc goes by the time it was last used
    here = repo.replace(root=place, common_dir=place)
    return source.replace(host=local, path=place, repo=here, is_bare=True, git_command=git.GIT)


def _compute_cache_key(text: str) -> str:
    """A name for the copy of a source: of this machine and path, for two clients must not share one."""
    import hashlib

    whole = f"{os.uname().nodename}:{os.getuid()}:{text}"
    return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:16]
