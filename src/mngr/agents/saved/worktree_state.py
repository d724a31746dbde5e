"""Reads what git alone could not restore of a work tree, without changing or converting any file."""

from __future__ import annotations

import os

from mngr.agents.saved import tar, unfiltered_git
from mngr.agents.saved.unfiltered_git import RawGit, WorkTreeRepo
from mngr.agents.workdir.transfer import list_existing_files
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host

_STATUS_OPTIONS = (
    "--porcelain=v2",
    "-z",
    "--untracked-files=all",
    "--ignored=matching",
    "--no-renames",
    "--ignore-submodules=dirty",
)
# Finds empty directories, unusual modes, named pipes, nested .git entries and .gitattributes files.
_FIND_ODD_FILES = """\
cd "$1" || exit
shift
u=$(umask)
f=$(printf %o $((0666 & ~u))) x=$(printf %o $((0777 & ~u)))
printf '%s\\0' "$u"
LC_ALL=C exec find . "$@" -name .git -prune -print0 -o \\( -type d \\( -empty -o ! -perm "$x" \\) -o -type f ! -perm "$f" ! -perm "$x" \\
    -o -type p -o -name .gitattributes \\) -print0
"""
FIND_ESCAPES = {ord(char): "\\" + char for char in "\\*?["}  # because find reads paths as patterns
_CONVERTING_ATTRIBUTES = ("filter", "ident", "working-tree-encoding")
_MODES_WITHOUT_BLOB = ("000000", "160000")  # a missing file, a submodule


class WorkTreeState(Struct):
    """The parts of a work tree that mngr must save besides its commits."""

    files: list[str]  # paths for the archive
    missing: list[str]  # in the index, not in the work tree
    dirty: list[str]  # staged, changed or untracked
    blobs: list[str]  # objects that only the index holds
    needs_index: bool  # the index differs from HEAD's tree
    umask: str
    ignored_bytes: int


class _StatusRows(Struct):
    """The paths in the output of `git status`, by what they mean for saving."""

    changed: list[str] = []
    missing: list[str] = []
    staged: list[str] = []
    untracked: list[str] = []
    ignored: list[str] = []
    blobs: list[str] = []


def read_ignore_and_conversion_settings(host: Host, work_dir: str) -> dict[str, str]:
    """Return the git settings that decide which files are ignored or converted."""
    words = ("config", "-z", "--get-regexp", r"^core\.(excludesfile|attributesfile|autocrlf)$")
    result = git.run(host, work_dir, *words, git_command=git.SAFE_GIT)
    rows = (row.partition("\n") for row in result.out.decode("utf-8", "surrogateescape").split("\0") if row)
    return {key.lower(): value for key, _, value in rows}


def read_work_tree_state(
    raw_git: RawGit, repo: WorkTreeRepo, config: dict[str, str], umask: str | None = None
) -> WorkTreeState:
    """Return the state of the whole work tree. `umask` is given for a copy, and is that of its original host."""
    host, work_dir = raw_git.host, raw_git.work_dir
    is_copy = umask is not None
    rows = _parse_status(raw_git.run_checked("status", *_STATUS_OPTIONS))
    index = unfiltered_git.list_index_rows(raw_git)
    special_rows = unfiltered_git.parse_index_rows([row for row in index if not row.startswith((b"H 100", b"H 120"))])
    umask, odd_files = _read_umask_and_unreported_files(host, work_dir, rows.ignored, umask)
    flagged_paths = [path for tag, mode, path in special_rows if tag not in "HM" and mode != "160000"]
    repos = {name[:-5] for name in odd_files if name.endswith("/.git")}
    whole_dirs = {path.rstrip("/") for path in rows.untracked if path.endswith("/")}
    whole_dirs |= {path for _, mode, path in special_rows if mode == "160000" and path in repos}
    whole_dirs |= {f"{name}/.git" for name in repos if not _is_below(name, whole_dirs)}
    files = dict.fromkeys([*rows.changed, *(path for path in rows.untracked if not path.endswith("/"))])
    files.update(dict.fromkeys(name for name in odd_files if not name.endswith("/.git")))
    files.update(dict.fromkeys(list_existing_files(host, work_dir, flagged_paths)))
    # In a copy git takes no file as unchanged, so it has listed all converted files already.
    if not is_copy and _can_convert_files(repo, config, odd_files):
        known = {*files, *rows.missing}
        unchanged_paths = [
            path
            for tag, mode, path in unfiltered_git.parse_index_rows(index)
            if tag == "H" and mode[:3] == "100" and path not in known
        ]
        files.update(dict.fromkeys(_list_converted_files(host, work_dir, unchanged_paths)))
    files.update(dict.fromkeys(tar.list_tree(host, work_dir, sorted(whole_dirs))))
    return WorkTreeState(
        files=list(files),
        missing=rows.missing,
        dirty=[*rows.staged, *rows.changed, *rows.missing, *rows.untracked],
        blobs=rows.blobs,
        needs_index=bool(rows.staged or flagged_paths),
        umask=umask,
        ignored_bytes=_compute_disk_usage(host, work_dir, rows.ignored),
    )


def _parse_status(out: bytes) -> _StatusRows:
    """Parse the output of `git status --porcelain=v2 -z`."""
    rows = _StatusRows(changed=[], missing=[], staged=[], untracked=[], ignored=[], blobs=[])
    for row in out.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        kind, _, rest = row.partition(" ")
        if kind == "?":
            rows.untracked.append(rest)
        elif kind == "!":
            rows.ignored.append(rest)
        elif kind == "1":
            xy, _, _, index_mode, work_mode, _, oid, path = rest.split(" ", 7)
            if xy[0] != "." or xy[1] == "A":
                rows.staged.append(path)
                if index_mode not in _MODES_WITHOUT_BLOB:
                    rows.blobs.append(oid)
            if xy[1] == "D":
                rows.missing.append(path)
            elif xy[1] != "." and work_mode != "160000":
                rows.changed.append(path)
        elif kind == "u":
            fields = rest.split(" ", 9)
            modes = fields[2:5]
            work_mode = fields[5]
            oids = fields[6:9]
            path = fields[9]
            rows.staged.append(path)
            rows.blobs.extend(oid for oid, mode in zip(oids, modes, strict=True) if mode not in _MODES_WITHOUT_BLOB)
            if work_mode == "000000":
                rows.missing.append(path)
            else:
                rows.changed.append(path)
    return rows


def _read_umask_and_unreported_files(
    host: Host, work_dir: str, ignored: list[str], umask: str | None
) -> tuple[str, list[str]]:
    """Return the umask, and paths that `git status` does not report. Ignored directories are skipped."""
    prunes = ["./.git", *("./" + path.rstrip("/") for path in ignored if path.endswith("/"))][:500]
    words = [word for path in prunes for word in ("-path", path.translate(FIND_ESCAPES), "-prune", "-o")]
    prefix = f"umask {umask}\n" if umask else ""
    result = host.run(["sh", "-c", prefix + _FIND_ODD_FILES, "find", work_dir, *words])
    tar.check_read_result(result, work_dir)
    umask, *paths = result.out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    if not set(umask) <= set("01234567"):
        raise MngrError(
            f"{host.name} reports the umask {umask!r}, which is not a number",
            f"check the host: mngr doctor @{host.name}",
        )
    excluded = set(ignored)
    ignored_dirs = {path.rstrip("/") for path in ignored if path.endswith("/")}
    names = (name.removeprefix("./") for name in paths)
    return umask, [name for name in names if name not in excluded and not _is_below(name, ignored_dirs)]


def _is_below(name: str, directories: set[str]) -> bool:
    """True when the path is one of these directories or inside one."""
    while name:
        if name in directories:
            return True
        name = os.path.dirname(name)
    return False


def _can_convert_files(repo: WorkTreeRepo, config: dict[str, str], odd_files: list[str]) -> bool:
    """True when a setting or attribute could make a file differ from git's copy of it."""
    if config.get("core.autocrlf", "false").lower() in ("true", "input", "1", "yes", "on"):
        return True
    if "core.attributesfile" in config or any(name.rpartition("/")[2] == ".gitattributes" for name in odd_files):
        return True
    user_config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    if "info/attributes" in repo.common_files:
        return True
    return any(os.path.exists(path) for path in (os.path.join(user_config, "git", "attributes"), "/etc/gitattributes"))


def _list_converted_files(host: Host, work_dir: str, names: list[str]) -> list[str]:
    """Return unchanged files that may differ from git's copy: those with a filter, or that contain CR."""
    if not names:
        return []
    listed = "\0".join(names).encode("utf-8", "surrogateescape")
    words = ("check-attr", "-z", "--stdin", *_CONVERTING_ATTRIBUTES)
    result = git.run(host, work_dir, *words, stdin=listed, git_command=git.SAFE_GIT)
    if result.code:
        raise MngrError(
            f"git check-attr failed in {work_dir}: {result.error_line}", f"correct {work_dir}/.gitattributes"
        )
    fields = result.out.decode("utf-8", "surrogateescape").split("\0")
    filtered = [
        path for path, value in zip(fields[0::3], fields[2::3], strict=False) if value not in ("unspecified", "unset")
    ]
    line = 'cd "$1" && LC_ALL=C exec xargs -0 grep -lsF --null -e "$2" --'
    relative_paths = b"\0".join(b"./" + name for name in listed.split(b"\0"))
    result = host.run(["sh", "-c", line, "grep", work_dir, "\r"], stdin=relative_paths)
    with_cr = result.out.decode("utf-8", "surrogateescape").split("\0")
    return [*filtered, *(name.removeprefix("./") for name in with_cr if name)]


def _compute_disk_usage(host: Host, work_dir: str, names: list[str]) -> int:
    """Return the disk usage of these paths in bytes."""
    if not names:
        return 0
    listed = "\0".join(f"./{name}" for name in names).encode("utf-8", "surrogateescape")
    line = "cd \"$1\" && xargs -0 du -sk -- 2>/dev/null | awk '/^[0-9]+\\t/ { n += $1 } END { print n * 1024 }'"
    total = host.run(["sh", "-c", line, "du", work_dir], stdin=listed).text
    return int(float(total)) if total else 0
