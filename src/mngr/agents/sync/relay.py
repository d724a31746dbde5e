"""A repository of one host, brought to another through git's own protocol: only what is missing there travels."""

from __future__ import annotations

import os

from mngr.agents.workdir.source import are_near
from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.host import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.workdir.source import Source
    from mngr.host.git import Repo
    from mngr.host.protocol import Host

_HEADS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_INIT = '[ -d "$1" ] || { mkdir -p -- "${1%/*}" && git init --quiet --bare --template= --object-format="$2" -- "$1"; }'


def bring_near(ctx: Context, source: Source, host: Host, transfer: str, base: str | None) -> Source:
    """The source with a copy of its repository on the host where a mirror of it shall be made."""
    if transfer != "mirror" or source.repo is None or are_near(source.host, host):
        return source
    if not source.host.is_here:
        source = _bring_here(ctx, source, source.repo, base)
        if host.is_here:
            return source
    repo = source.repo
    assert repo is not None
    place = os.path.join(host.home.cache, "sources", _key(source.kept) + ".git")
    specs = [*_HEADS, f"+{base}:refs/mngr/base"] if base else [*_HEADS]
    flags = (
        "--quiet",
        "--no-verify",
        "--prune",
        "--no-recurse-submodules",
        "--no-follow-tags",
        "--no-signed",
    )
    form = source.form or git.object_format(source.host, repo)
    there = (
        "sh",
        "-c",
        f'set -- "$3" "$1" "$2"; {_INIT} >&2 && exec git -c receive.autogc=false "$3" "$1"',
        "git",
        form,
    )
    argv = [*source.by, "-C", repo.root, *git.THROUGH, "push", *flags, "--"]
    argv += [host.git_url(place, there), *specs]
    waits = os.path.join(ctx.home.cache, f"push-{_key(source.kept)}-{host.provider}-{host.name}.lock")
    with Lock(waits, timeout=600):
        result = source.host.run(argv, timeout=3600.0)
    if result.code:
        host.has(place)  # raises where it was the host that could not be reached
        why = git.complaint(result)
        raise MngrError(f"the repository could not be sent to {host.name}: {why}", git.hint(result.problem))
    near = repo.replace(root=place, common_dir=place)
    return source.replace(near=near, form=form)


def _bring_here(ctx: Context, source: Source, repo: Repo, base: str | None) -> Source:
    """A copy in our cache of a repository that is on a host, checked like everything that comes from there."""
    from mngr.agents.sync import quarantine, transfer_limits

    local = ctx.local
    key = _key(f"{source.host.provider}/{source.host.name}:{source.kept}")
    place = os.path.join(ctx.home.cache, "repos", key + ".git")
    form = git.object_format(source.host, repo)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    with Lock(place + ".lock", timeout=600):
        made = local.run(["sh", "-c", _INIT, "init", place, form])
        if made.code:
            raise MngrError(f"git init failed: {made.problem}", git.hint(made.problem))
        specs = [*_HEADS, f"+{base}:refs/mngr/base"] if base else [*_HEADS]
        most = transfer_limits.limits(ctx.settings_at(None))
        quarantine.fetch(local, place, source.host, repo.common_dir, *specs, limits=most)
        os.utime(place)  # gc goes by the time it was last used
    here = repo.replace(root=place, common_dir=place)
    return source.replace(host=local, path=place, repo=here, is_bare=True, by=git.GIT)


def _key(text: str) -> str:
    """A name for the copy of a source: of this machine and path, for two clients must not share one."""
    import hashlib

    whole = f"{os.uname().nodename}:{os.getuid()}:{text}"
    return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:16]
