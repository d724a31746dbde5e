"""The project's environment as a recipe: `[project] setup` and `carry`, run once per lock hash."""

from __future__ import annotations

import os

from mngr import git
from mngr.errors import MngrError
from mngr.lock import Lock
from mngr.ops.transfer import send_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.config import Settings
    from mngr.host import Host
    from mngr.model import AgentRecord

# Files that decide what a set-up makes; a change in any of them makes it run again.
LOCKS = (
    "uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt",
    "requirements-dev.txt", "package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "Cargo.lock", "go.sum",
    "Gemfile.lock", "composer.lock", ".python-version", ".tool-versions",
)  # fmt: skip


def carry(host: Host, source: str, record: AgentRecord, settings: Settings, *, replace: bool = True) -> None:
    """Copy the ignored files an agent needs; without `replace` only those it does not have."""
    patterns = settings.get("project.carry") or []
    if not patterns:
        return
    import glob

    found: dict[str, None] = {}
    for pattern in patterns:
        if os.path.isabs(pattern) or ".." in pattern.split("/"):
            raise MngrError(f"[project] carry: {pattern!r} leaves the project", "patterns are relative to the project")
        for name in sorted(glob.glob(pattern, root_dir=source, recursive=True, include_hidden=True)):
            if name == ".git" or name.startswith(".git/"):
                continue
            if replace or not os.path.lexists(os.path.join(record.work_dir, name)):
                found[name] = None
    send_files(source, list(found), host, record.work_dir)


def set_up(host: Host, record: AgentRecord, settings: Settings) -> None:
    """Make the work dir runnable: from the cache where the same set-up was made before, else by running it."""
    command = settings.get("project.setup")
    if not command:
        return
    key = _key(record.work_dir, command, list(settings.get("project.lock") or []))
    cache = os.path.join(host.home.cache, "setup")
    host.run(["mkdir", "-p", cache])
    place = os.path.join(cache, key)
    with Lock(place + ".lock", timeout=3600):
        if record.transfer in ("worktree", "mirror") and os.path.isdir(place):
            _reuse(host, place, record.work_dir)
            return
        before = _ignored(host, record)
        _run(host, record, command)
        if before is not None:
            _keep(host, record, place, before)


def _key(work: str, command: str, more: list[str]) -> str:
    import hashlib

    digest = hashlib.sha256(command.encode())
    for name in sorted({*LOCKS, *more}):
        try:
            with open(os.path.join(work, name), "rb") as file:
                digest.update(name.encode() + b"\0" + file.read() + b"\0")
        except OSError:
            continue
    return digest.hexdigest()[:24]


def _run(host: Host, record: AgentRecord, command: str) -> None:
    directory = host.home.agent(record.id)
    enter = os.path.join(host.home.lib, "current", "enter.sh")
    line = 'exec "$@" >"$0" 2>&1 </dev/null'
    log = os.path.join(directory, "setup.log")
    result = host.run(["sh", "-c", line, log, "env", "-i", "sh", enter, directory, "sh", "-c", command])
    if result.code:
        tail = host.read(log).decode("utf-8", "replace").strip().splitlines()[-5:]
        raise MngrError(
            f"[project] setup failed with exit code {result.code}: {command}\n  " + "\n  ".join(tail),
            "run it by hand in a fresh clone, or change project.setup",
        )


def _ignored(host: Host, record: AgentRecord) -> set[str] | None:
    if record.transfer not in ("worktree", "mirror"):
        return None
    listed = git.run(host, record.work_dir, "status", "--porcelain=v1", "-z", "--ignored=traditional", "--untracked-files=normal")
    return {row for row in listed.out.decode("utf-8", "surrogateescape").split("\0") if row} if listed.code == 0 else None


def _keep(host: Host, record: AgentRecord, place: str, before: set[str]) -> None:
    """Keep what set-up made, if all of it is ignored by git."""
    after = _ignored(host, record)
    if after is None:
        return
    made = sorted(after - before)
    if any(not row.startswith("!! ") for row in made):
        return
    fresh = f"{place}.{os.getpid()}"
    host.run(["mkdir", "-p", os.path.join(fresh, "files")])
    send_files(record.work_dir, [row[3:].rstrip("/") for row in made], host, os.path.join(fresh, "files"))
    host.write(os.path.join(fresh, "origin"), record.work_dir.encode("utf-8", "surrogateescape"))
    os.rename(fresh, place)


def _reuse(host: Host, place: str, work: str) -> None:
    """Copy what an earlier set-up made and point it at this work dir."""
    os.utime(place)  # gc goes by the time it was last used
    origin = host.read(os.path.join(place, "origin"))
    files = os.path.join(place, "files")
    names = sorted(os.listdir(files))
    send_files(files, names, host, work)
    if not names or origin == work.encode("utf-8", "surrogateescape"):
        return
    found = host.run(["sh", "-c", 'cd "$1" && shift && exec grep -rlIZF -e "$@"', "grep", work, origin.decode(), *names])
    for name in found.out.split(b"\0"):
        path = os.path.join(work.encode("utf-8", "surrogateescape"), name)
        if not name or os.path.islink(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data.replace(origin, work.encode("utf-8", "surrogateescape")))
    links = host.run(["sh", "-c", 'cd "$1" && shift && exec find "$@" -type l -print0', "find", work, *names])
    for name in links.out.split(b"\0"):
        path = os.path.join(work.encode("utf-8", "surrogateescape"), name)
        if name and origin in os.readlink(path):
            target = os.readlink(path).replace(origin, work.encode("utf-8", "surrogateescape"))
            os.unlink(path)
            os.symlink(target, path)
