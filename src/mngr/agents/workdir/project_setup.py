"""Makes an agent's copy of the project runnable: `[project] carry` and `setup`, cached by the set-up's inputs.

The inputs are the command, the lock files and the files that the command names. Only content that the user's checkout
contains fills the common cache: any other content could put something else into the same cache entry.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable

from mngr.agents.sandbox import bubblewrap
from mngr.agents.workdir.private_variables import without_private_variables
from mngr.agents.workdir.setup_run import run_setup
from mngr.agents.workdir.transfer import copy_files, list_existing_files
from mngr.base import shell
from mngr.base.config import Settings
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Struct
from mngr.host import git, scripts
from mngr.host.protocol import Host

# Files that determine the set-up's result. A change in any of them makes the set-up run again.
LOCK_FILES = (
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "requirements-dev.txt",
    "package.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "Cargo.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    ".python-version",
    ".tool-versions",
)
# Files that a program of the set-up command reads without being told their names.
_IMPLIED_FILES = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini",),
    "inv": ("tasks.py",),
    "invoke": ("tasks.py",),
    "rake": ("Rakefile",),
    "npm": (".npmrc",),
    "pnpm": (".npmrc", ".pnpmfile.cjs"),
    "yarn": (".yarnrc", ".yarnrc.yml"),
}
_SHELL_PUNCTUATION = "\t\n\r\"'`;|&()<>{}$=,"
_DIRECTORY_OPTIONS = ("cd", "pushd", "-C", "--cwd", "--dir", "--directory", "--prefix", "--project")


def list_setup_inputs(settings: Settings) -> list[str]:
    """Return the paths, relative to the project, of the files that decide the set-up's result, whether they exist or not."""
    command = str(settings.get("project.setup") or "")
    return sorted({*LOCK_FILES, *list_named_files(command), *(settings.get("project.lock") or [])})


def list_named_files(command: str) -> list[str]:
    """Return every path in the project that a command may name: its words, Python modules and implied files."""

    words = command.translate({ord(char): " " for char in _SHELL_PUNCTUATION}).split()
    names = {name for word in words for name in (word, *_IMPLIED_FILES.get(word, ()))}
    for option, module in itertools.pairwise(words):
        if option == "-m":
            path = module.replace(".", "/")
            names |= {f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"}
    directories = [word for option, word in itertools.pairwise(words) if option in _DIRECTORY_OPTIONS]
    names |= {os.path.join(directory, name) for directory in directories for name in (*names, *LOCK_FILES)}
    normal_names = {os.path.normpath(name) for name in names}
    return sorted(name for name in normal_names if not name.startswith(("/", "-", "..")) and name != ".")


def copy_carried_files(
    origin: Host,
    source: str,
    host: Host,
    record: AgentRecord,
    settings: Settings,
    *,
    replace: bool = True,
    git_command: tuple[str, ...],
) -> None:
    """Copy the carried files to the agent. Without `replace`, copy only those that it does not have."""
    patterns = settings.get("project.carry") or []
    if not patterns:
        return
    for pattern in patterns:
        if not isinstance(pattern, str) or os.path.isabs(pattern) or ".." in pattern.split("/"):
            raise MngrError(
                f"[project] carry: {pattern!r} is not a path inside the project",
                "write the path relative to the project, for example: mngr config set project.carry '[\".env\"]'",
            )
    names = _filter_ignored(origin, source, _list_matching_files(origin, source, patterns), git_command)
    if not names:
        return
    host = bubblewrap.open_sandboxed_host(host, record)  # A directory in the work dir may be a link that leads outside.
    existing = [] if replace else list_existing_files(host, record.work_dir, names)
    copy_files(origin, source, [name for name in names if name not in existing], host, record.work_dir)


def _list_matching_files(origin: Host, source: str, patterns: list[str]) -> list[str]:
    """Return the paths that match the patterns, each once."""
    paths: dict[str, None] = {}
    if origin.is_local:
        import glob

        for pattern in patterns:
            rows = glob.glob(pattern, root_dir=source, recursive=True, include_hidden=True)
            paths.update(dict.fromkeys(sorted(rows)))
        return list(paths)
    for pattern in patterns:  # A shell on the host expands * ? [ ] but not **.
        line = 'cd -- "$1" && IFS= && for f in $2; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\\0" "$f"; fi; done'
        rows = origin.run(["sh", "-c", line, "carry", source, pattern]).text.split("\0")
        paths.update(dict.fromkeys(row for row in rows if row))
    return list(paths)


def _filter_ignored(host: Host, source: str, names: list[str], git_command: tuple[str, ...]) -> list[str]:
    """Return the paths in `names` that git ignores, or all of them outside of a repository. git brings the others."""
    if not names:
        return []
    flags = ("--others", "--ignored", "--exclude-standard", "--directory", "-z")
    listed = git.run(host, source, "--literal-pathspecs", "ls-files", *flags, "--", *names, git_command=git_command)
    if listed.code:
        return [name for name in names if ".git" not in name.split("/")]
    ignored = listed.out.decode("utf-8", "surrogateescape").split("\0")
    return [name.rstrip("/") for name in ignored if name]


class SetupOrigin(Struct):
    """Where the content of a work dir comes from, and which later set-ups may reuse the result of its set-up."""

    is_trusted: bool  # the user's checkout contains the content
    cache_name: str | None  # the result is cached for this name only; empty: not at all; None: for the whole project

    def get_package_owner(self, project: str) -> str:
        """Return a name for the package cache: one for the default branch, and one for each other checked-out branch.

        Untrusted content writes to neither.
        """
        return f"{project}\0{self.cache_name}" if self.is_trusted and self.cache_name is not None else project


NOT_CACHED = SetupOrigin(is_trusted=False, cache_name="")


def run_or_reuse_setup(
    host: Host,
    record: AgentRecord,
    settings: Settings,
    find_origin: Callable[[], SetupOrigin],
    *,
    project: str,
) -> None:
    """Make the work dir runnable: copy the cached result of the same set-up, or run the set-up.

    `find_origin` tells which later set-ups may reuse the result. Set-ups of the same branch of a `project` share
    downloaded packages.
    """
    command = settings.get("project.setup")
    if not command:
        return
    cache = os.path.join(host.home.cache, "setup")
    key = _compute_cache_key(host, record.work_dir, command, list_setup_inputs(settings))
    common_dir = os.path.join(cache, key)
    host.run(["mkdir", "-p", cache])
    with host.lock(common_dir + ".lock", timeout=3600.0):
        can_reuse = record.transfer in ("worktree", "mirror")
        if can_reuse and _copy_cached_setup(host, common_dir, record.work_dir):
            return

        origin = find_origin()
        cached_dir = common_dir if origin.cache_name is None else f"{common_dir}-{origin.cache_name}"
        if can_reuse and origin.cache_name and _copy_cached_setup(host, cached_dir, record.work_dir):
            return
        before = _list_untracked_rows(host, record)
        carried = _list_ignored_files(host, record.work_dir, before or set())
        with without_private_variables(host, host.home.agent_dir(record.id)):
            owner = origin.get_package_owner(project)
            run_setup(host, record, settings, package_owner=owner, is_trusted=origin.is_trusted)
        after = _list_untracked_rows(host, record)
        if before is None or after is None or origin.cache_name == "" or _has_fetched_submodules(host, record.work_dir):
            return
        has_replaced_directory = any(f"{row}/" in before for row in after)  # The next agent carries the directory.
        if not has_replaced_directory:
            new_in_old_directories = _list_ignored_files(host, record.work_dir, before) - carried
            new_rows = (after - before) | new_in_old_directories
            _cache_setup_files(host, record.work_dir, cached_dir, sorted(new_rows))


def _has_fetched_submodules(host: Host, work_dir: str) -> bool:
    """True if set-up fetched submodules. Their files are not in the cache, because git does not report them as new."""
    listed = git.run(host, work_dir, "ls-files", "--stage", "-z", git_command=git.SAFE_GIT)
    rows = listed.out.decode("utf-8", "surrogateescape").split("\0")
    paths = [row.partition("\t")[2] for row in rows if row.startswith("160000 ")]
    return any(host.has_path(os.path.join(work_dir, path, ".git")) for path in paths)


_MAX_INPUT_BYTES = 64 << 20  # of the files that decide the result of set-up
_READ_FILES = 'cd -- "$1" && limit=$2 && shift 2 && for name; do if [ -f "$name" ]; then printf "%s\\0" "$name"; head -c "$limit" "$name"; printf "\\0"; fi; done'


def _compute_cache_key(host: Host, work_dir: str, command: str, names: list[str]) -> str:
    """Return a key for the set-up's result, from the command and the files that decide the result.

    The files belong to a branch. If they are too large, the key is new at each call, so that no result is reused.
    """

    digest = hashlib.sha256(command.encode())
    if host.is_local:
        size = 0
        for name in names:
            data = _read_input(os.path.join(work_dir, name), _MAX_INPUT_BYTES + 1 - size)
            if data is not None:
                size += len(data)
                digest.update(name.encode() + b"\0" + data + b"\0")
    else:
        script = ["sh", "-c", _READ_FILES, "read", work_dir, str(_MAX_INPUT_BYTES + 1), *names]
        out = host.run(script).out
        size = len(out)
        digest.update(out)
    if size > _MAX_INPUT_BYTES:
        digest.update(os.urandom(16))
    return digest.hexdigest()[:24]


def _read_input(path: str, max_bytes: int) -> bytes | None:
    """Return at most `max_bytes` of a file, or None if it is missing or no regular file."""
    if not os.path.isfile(path):  # A link can lead to a device, which has no end.
        return None
    try:
        with open(path, "rb") as file:
            return file.read(max_bytes)
    except OSError:
        return None


def _list_untracked_rows(host: Host, record: AgentRecord) -> set[str] | None:
    """Return rows of `git status` for untracked paths, and `!! path` for ignored ones. Directories are not expanded.

    Return None outside of a repository.
    """
    if record.transfer not in ("worktree", "mirror"):
        return None
    flags = ("--porcelain=v1", "-z", "--ignored=traditional", "--untracked-files=normal")
    host = bubblewrap.open_sandboxed_host(host, record)
    git_command = git.build_guarded_git(record.work_dir) if record.transfer == "mirror" else git.GIT
    listed = git.run(
        host,
        record.work_dir,
        "--no-optional-locks",
        "status",
        "--ignore-submodules=dirty",
        *flags,
        git_command=git_command,
    )
    if listed.code:
        return None
    rows = listed.out.decode("utf-8", "surrogateescape").split("\0")
    return {row for row in rows if row}


def _list_ignored_files(host: Host, work_dir: str, rows: set[str]) -> set[str]:
    """Return a row for each file in the ignored directories of `rows`, to tell carried files from set-up's files."""
    directories = [row[3:-1] for row in rows if row.startswith("!! ") and row.endswith("/")]
    if directories and not host.is_local:
        line = 'cd -- "$1" && shift && exec find "$@" ! -type d -print0'
        listed = host.run(["sh", "-c", line, "find", work_dir, *(f"./{directory}" for directory in directories)])
        names = listed.out.decode("utf-8", "surrogateescape").split("\0")
        return {"!! " + name.removeprefix("./") for name in names if name}
    ignored_rows: set[str] = set()
    for directory in directories:
        if _leads_through_link(work_dir, directory):
            continue  # A set-up can replace a carried directory by a link that leads anywhere.
        for top, _, names in os.walk(os.path.join(work_dir, directory)):
            ignored_rows.update("!! " + os.path.relpath(os.path.join(top, name), work_dir) for name in names)
    return ignored_rows


def _cache_setup_files(host: Host, work_dir: str, cached_dir: str, new_rows: list[str]) -> None:
    """Cache the files that set-up created, if it changed no tracked file except metadata of setuptools and bytecode."""

    names: list[str] = []
    for row in sorted(new_rows, key=lambda row: row[3:].rstrip("/").split("/")):  # A directory comes before its files.
        name = row[3:].rstrip("/")
        if not row.startswith(("!! ", "?? ")):
            if re.search(r"\.egg-info(/|$)|(/| )__pycache__(/|$)", row) is None:
                return
        elif not any(name.startswith(f"{parent}/") for parent in names[-1:]):
            names.append(name)
    if not host.is_local:
        listed = "".join(f"{name}\0" for name in names)
        host.run(
            ["sh", "-c", scripts.read_program("setup_cache.sh"), "setup_cache.sh", "keep", cached_dir, work_dir],
            stdin=listed.encode("utf-8", "surrogateescape"),
        )
        return
    if not all(_is_safe_to_pack(work_dir, name) for name in names):
        return
    partial_dir = f"{cached_dir}.{os.getpid()}"
    files_dir = os.path.join(partial_dir, "files")
    host.run(["mkdir", "-p", files_dir])
    copy_files(host, work_dir, names, host, files_dir)
    host.write(os.path.join(partial_dir, "origin"), work_dir.encode("utf-8", "surrogateescape"))
    os.rename(partial_dir, cached_dir)


def _is_safe_to_pack(work_dir: str, name: str) -> bool:
    """True if tar finds the file in the work dir and outside of its repository.

    A set-up that can write the repository decides which names git reports. Its processes have ended, so nobody can
    replace a directory after this check.
    """
    parts = name.split("/")
    is_relative = parts[0] != ".git" and not {"", ".", ".."} & set(parts)
    return is_relative and not _leads_through_link(work_dir, os.path.dirname(name))


def _leads_through_link(work_dir: str, name: str) -> bool:
    """True if the path, or a directory on the way to it from the work dir, is a link."""
    while name:
        if os.path.islink(os.path.join(work_dir, name)):
            return True
        name = os.path.dirname(name)
    return False


def _copy_cached_setup(host: Host, cached_dir: str, work_dir: str) -> bool:
    """Copy a cached set-up result and replace the old work dir's path in it. Return False if there is none."""
    if not host.is_local:
        result = host.run(
            ["sh", "-c", scripts.read_program("setup_cache.sh"), "setup_cache.sh", "reuse", cached_dir, work_dir],
            timeout=3600.0,
        )
        if result.code not in (0, 3):
            raise MngrError(
                f"mngr could not copy the cached result of the project's set-up: {result.error_line}",
                shell.suggest_disk_check(work_dir, host.name),
            )
        return result.code == 0
    if not os.path.isdir(cached_dir):
        return False
    os.utime(cached_dir)  # gc deletes cached results by the time of their last use.
    origin = host.read(os.path.join(cached_dir, "origin"))
    target = work_dir.encode("utf-8", "surrogateescape")
    files = os.path.join(cached_dir, "files")
    names = sorted(os.listdir(files))
    copy_files(host, files, names, host, work_dir)
    not_links = [name for name in names if not os.path.islink(os.path.join(work_dir, name))]
    if not_links and origin != target:
        _replace_path(host, work_dir, names, not_links, origin)
    return True


def _replace_path(host: Host, work_dir: str, names: list[str], not_links: list[str], origin: bytes) -> None:
    """Replace the path `origin` by the work dir's path, in the copied files and in links."""

    target = work_dir.encode("utf-8", "surrogateescape")
    # The path must not match as a prefix of another agent's work dir.
    origin_pattern = re.compile(re.escape(origin) + rb"(?![\w.-])")
    line = 'cd "$1" && shift && a=$1 && shift && exec grep -rlIF --null -e "$a" -- "$@"'
    for name in host.run(["sh", "-c", line, "grep", work_dir, os.fsdecode(origin), *not_links]).out.split(b"\0"):
        path = os.path.join(target, name)
        if name and not os.path.islink(path):
            _rewrite_file(path, lambda data: origin_pattern.sub(lambda _: target, data))
    links = host.run(["sh", "-c", 'cd "$1" && shift && exec find "$@" -type l -print0', "find", work_dir, *names])
    for name in links.out.split(b"\0"):
        path = os.path.join(target, name)
        if name and origin_pattern.search(os.readlink(path)):
            link_target = origin_pattern.sub(lambda _: target, os.readlink(path))
            os.unlink(path)
            os.symlink(link_target, path)


def _rewrite_file(path: bytes, change: Callable[[bytes], bytes]) -> None:
    """Replace a file by the result of `change`, with the same mode, even if the file is read-only."""
    with open(path, "rb") as file:
        data = file.read()
        mode = os.fstat(file.fileno()).st_mode
    os.unlink(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(change(data))
    os.chmod(path, mode & 0o7777)
