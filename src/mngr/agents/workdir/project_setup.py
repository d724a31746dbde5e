"""The project's environment as a recipe: `[project] setup` and `carry`, run once per lock hash."""

from __future__ import annotations

import os

from mngr.agents.sandbox import bubblewrap
from mngr.agents.workdir.transfer import copy_files, list_existing_files
from mngr.base.errors import MngrError
from mngr.host import git, scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.base.config import Settings
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

# Files that decide what a set-up makes; a change in any of them makes it run again.
LOCK_FILES = (
    "uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt",
    "requirements-dev.txt", "package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "Cargo.lock", "go.sum",
    "Gemfile.lock", "composer.lock", ".python-version", ".tool-versions",
)  # fmt: skip


def copy_carried_files(
    origin: Host,
    source: str,
    host: Host,
    record: AgentRecord,
    settings: Settings,
    *,
    replace: bool = True,
    by: tuple[str, ...] = git.GIT,
) -> None:
    """Copy the ignored files an agent needs; without `replace` only those it does not have."""
    patterns = settings.get("project.carry") or []
    if not patterns:
        return
    for pattern in patterns:
        if not isinstance(pattern, str) or os.path.isabs(pattern) or ".." in pattern.split("/"):
            raise MngrError(
                f"[project] carry: {pattern!r} is no path in the project",
                "patterns are relative to the project",
            )
    names = _filter_ignored(origin, source, _list_matching_files(origin, source, patterns), by)
    has = [] if replace else list_existing_files(host, record.work_dir, names)
    copy_files(origin, source, [name for name in names if name not in has], host, record.work_dir)


def _list_matching_files(origin: Host, source: str, patterns: list[str]) -> list[str]:
    """What the patterns stand for, each file once."""
    found: dict[str, None] = {}
    if origin.is_local:
        import glob

        for pattern in patterns:
            rows = glob.glob(pattern, root_dir=source, recursive=True, include_hidden=True)
            found.update(dict.fromkeys(sorted(rows)))
        return list(found)
    for pattern in patterns:  # a shell there knows * ? [ ] but not **
        line = 'cd -- "$1" && IFS= && for f in $2; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\\0" "$f"; fi; done'
        rows = origin.run(["sh", "-c", line, "carry", source, pattern]).text.split("\0")
        found.update(dict.fromkeys(row for row in rows if row))
    return list(found)


def _filter_ignored(host: Host, source: str, names: list[str], by: tuple[str, ...]) -> list[str]:
    """What git ignores of these and of what is in them: the rest is git's to bring. All of them where there is no git."""
    flags = ("--others", "--ignored", "--exclude-standard", "--directory", "-z")
    listed = git.run(host, source, "--literal-pathspecs", "ls-files", *flags, "--", *names, by=by) if names else None
    if listed is None or listed.code:
        return [name for name in names if ".git" not in name.split("/")]
    return [name.rstrip("/") for name in listed.out.decode("utf-8", "surrogateescape").split("\0") if name]


def run_or_reuse_setup(host: Host, record: AgentRecord, settings: Settings) -> None:
    """Make the work dir runnable: from the cache where the same set-up was made before, else by running it."""
    command = settings.get("project.setup")
    if not command:
        return
    cache = os.path.join(host.home.cache, "setup")
    place = os.path.join(
        cache, _compute_cache_key(host, record.work_dir, command, list(settings.get("project.lock") or []))
    )
    host.run(["mkdir", "-p", cache])
    with host.lock(place + ".lock", timeout=3600.0):
        if record.transfer in ("worktree", "mirror") and _copy_cached_setup(host, place, record.work_dir):
            return
        before = _list_untracked_rows(host, record)
        carried = _list_ignored_files(host, record.work_dir, before or set())
        _run_setup(host, record, command)
        after = _list_untracked_rows(host, record)
        if before is not None and after is not None:
            made = (after - before) | (_list_ignored_files(host, record.work_dir, before) - carried)
            _cache_setup_files(host, record.work_dir, place, sorted(made))


_READ_FILES = 'cd -- "$1" && shift && for name; do if [ -f "$name" ]; then printf "%s\\0" "$name"; cat "$name"; printf "\\0"; fi; done'


def _compute_cache_key(host: Host, work: str, command: str, more: list[str]) -> str:
    import hashlib

    digest = hashlib.sha256(command.encode())
    names = sorted({*LOCK_FILES, *more})
    if not host.is_local:
        digest.update(host.run(["sh", "-c", _READ_FILES, "read", work, *names]).out)
        return digest.hexdigest()[:24]
    for name in names:
        try:
            with open(os.path.join(work, name), "rb") as file:
                digest.update(name.encode() + b"\0" + file.read() + b"\0")
        except OSError:
            continue
    return digest.hexdigest()[:24]


def _run_setup(host: Host, record: AgentRecord, command: str) -> None:
    directory = host.home.agent_dir(record.id)
    enter = os.path.join(host.home.lib, "current", "enter.sh")
    line = 'exec "$@" >"$0" 2>&1 </dev/null'
    log = os.path.join(directory, "setup.log")
    result = host.run(["sh", "-c", line, log, "env", "-i", "sh", enter, directory, "sh", "-c", command], timeout=3600.0)
    if result.code:
        tail = host.read(log).decode("utf-8", "replace").strip().splitlines()[-5:]
        raise MngrError(
            f"[project] setup failed with exit code {result.code}: {command}\n  " + "\n  ".join(tail),
            "run it by hand in a fresh clone, or change project.setup",
        )


def _list_untracked_rows(host: Host, record: AgentRecord) -> set[str] | None:
    """Rows of what git does not have, `!! path` what it ignores, directories as a whole; None where there is no git."""
    if record.transfer not in ("worktree", "mirror"):
        return None
    flags = ("--porcelain=v1", "-z", "--ignored=traditional", "--untracked-files=normal")
    host = bubblewrap.open_sandboxed_host(host, record)
    by = git.build_guarded_git(record.work_dir) if record.transfer == "mirror" else git.GIT
    listed = git.run(host, record.work_dir, "--no-optional-locks", "status", "--ignore-submodules=dirty", *flags, by=by)
    rows = listed.out.decode("utf-8", "surrogateescape").split("\0")
    return {row for row in rows if row} if listed.code == 0 else None


def _list_ignored_files(host: Host, work: str, rows: set[str]) -> set[str]:
    """A row for every file in the ignored directories of `rows`: what was carried into them is not set-up's."""
    places = [row[3:-1] for row in rows if row.startswith("!! ") and row.endswith("/")]
    if places and not host.is_local:
        line = 'cd -- "$1" && shift && exec find "$@" ! -type d -print0'
        listed = host.run(["sh", "-c", line, "find", work, *(f"./{place}" for place in places)])
        names = listed.out.decode("utf-8", "surrogateescape").split("\0")
        return {"!! " + name.removeprefix("./") for name in names if name}
    return {
        "!! " + os.path.relpath(os.path.join(top, name), work)
        for place in places
        for top, _, names in os.walk(os.path.join(work, place))
        for name in names
    }


def _cache_setup_files(host: Host, work: str, place: str, made: list[str]) -> None:
    """Keep what set-up made, if all of it is ignored by git."""
    if any(not row.startswith("!! ") for row in made):
        return
    if not host.is_local:
        names = "".join(f"{row[3:].rstrip('/')}\0" for row in made).encode("utf-8", "surrogateescape")
        host.run(["sh", "-c", scripts.read_program("setup.sh"), "setup.sh", "keep", place, work], stdin=names)
        return
    fresh = f"{place}.{os.getpid()}"
    host.run(["mkdir", "-p", os.path.join(fresh, "files")])
    copy_files(host, work, [row[3:].rstrip("/") for row in made], host, os.path.join(fresh, "files"))
    host.write(os.path.join(fresh, "origin"), work.encode("utf-8", "surrogateescape"))
    os.rename(fresh, place)


def _copy_cached_setup(host: Host, place: str, work: str) -> bool:
    """Copy what an earlier set-up made and point it at this work dir; False when there is none."""
    if not host.is_local:
        made = host.run(
            ["sh", "-c", scripts.read_program("setup.sh"), "setup.sh", "reuse", place, work], timeout=3600.0
        )
        if made.code not in (0, 3):
            raise MngrError(f"what set-up made before could not be copied: {made.error_line}", "check space there")
        return made.code == 0
    if not os.path.isdir(place):
        return False
    import re

    os.utime(place)  # gc goes by the time it was last used
    origin = host.read(os.path.join(place, "origin"))
    target = work.encode("utf-8", "surrogateescape")
    files = os.path.join(place, "files")
    names = sorted(os.listdir(files))
    copy_files(host, files, names, host, work)
    real = [name for name in names if not os.path.islink(os.path.join(work, name))]
    if not real or origin == target:
        return True
    whole = re.compile(re.escape(origin) + rb"(?![\w.-])")  # not the start of another agent's work dir
    line = 'cd "$1" && shift && a=$1 && shift && exec grep -rlIF --null -e "$a" -- "$@"'
    for name in host.run(["sh", "-c", line, "grep", work, os.fsdecode(origin), *real]).out.split(b"\0"):
        path = os.path.join(target, name)
        if name and not os.path.islink(path):
            _rewrite_file(path, lambda data: whole.sub(lambda _: target, data))
    links = host.run(["sh", "-c", 'cd "$1" && shift && exec find "$@" -type l -print0', "find", work, *names])
    for name in links.out.split(b"\0"):
        path = os.path.join(target, name)
        if name and whole.search(os.readlink(path)):
            points = whole.sub(lambda _: target, os.readlink(path))
            os.unlink(path)
            os.symlink(points, path)
    return True


def _rewrite_file(path: bytes, change: Callable[[bytes], bytes]) -> None:
    """Replace a file by what `change` makes of it, with the same mode, read-only or not."""
    with open(path, "rb") as file:
        data = file.read()
        mode = os.fstat(file.fileno()).st_mode
    os.unlink(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(change(data))
    os.chmod(path, mode & 0o7777)
