"""What of a work tree git alone would not bring back, read without changing or converting a byte."""

from __future__ import annotations

import os

from mngr.agents.saved import raw_git, tar
from mngr.agents.saved.raw_git import WorkTreeRepo
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
# Directories that are empty or have an odd mode, files of an odd mode, named pipes, and git's own names below the top.
_FIND_ODD_FILES = """\
cd "$1" || exit
shift
u=$(umask)
f=$(printf %o $((0666 & ~u))) x=$(printf %o $((0777 & ~u)))
printf '%s\\0' "$u"
LC_ALL=C exec find . "$@" -name .git -prune -print0 -o \\( -type d \\( -empty -o ! -perm "$x" \\) -o -type f ! -perm "$f" ! -perm "$x" \\
    -o -type p -o -name .gitattributes \\) -print0
"""
FIND_ESCAPES = {ord(char): "\\" + char for char in "\\*?["}  # for find, whose paths are patterns
_CONVERTING_ATTRIBUTES = ("filter", "ident", "working-tree-encoding")
_HEX_DIGITS = frozenset(b"0123456789abcdef")
_UNSCANNED_DIRS = ("objects", "hooks", "info", "modules", "worktrees", "lfs")
_MODES_WITHOUT_BLOB = ("000000", "160000")  # nothing there, a submodule


class WorkTreeState(Struct):
    """A work tree as it stands."""

    files: list[str]  # paths to archive
    missing: list[str]  # in the index, not in the work tree
    dirty: list[str]  # staged, changed or untracked
    blobs: list[str]  # objects that only the index holds
    needs_index: bool  # the index is not simply HEAD's tree
    umask: str
    ignored_bytes: int


class _StatusRows(Struct):
    """What `git status` said."""

    changed: list[str] = []
    missing: list[str] = []
    staged: list[str] = []
    untracked: list[str] = []
    ignored: list[str] = []
    blobs: list[str] = []


def read_git_settings(host: Host, work: str) -> dict[str, str]:
    """The user's settings that decide what is ignored and what is converted."""
    asked = git.run(host, work, "config", "-z", "--get-regexp", r"^core\.(excludesfile|attributesfile|autocrlf)$")
    rows = (row.partition("\n") for row in asked.out.decode("utf-8", "surrogateescape").split("\0") if row)
    return {key.lower(): value for key, _, value in rows}


def read_work_tree_state(
    host: Host, raw: str, work: str, place: WorkTreeRepo, config: dict[str, str], umask: str | None = None
) -> WorkTreeState:
    """Look at the whole work tree once; `umask` is that of its host, where that is another."""
    is_copy = umask is not None
    rows = _parse_status(raw_git.run_checked(host, raw, work, "status", *_STATUS_OPTIONS))
    index = raw_git.list_index_rows(host, raw, work)
    special = raw_git.parse_index_rows([row for row in index if not row.startswith((b"H 100", b"H 120"))])
    umask, odd = _list_odd_files(host, work, rows.ignored, umask)
    flagged = [path for tag, mode, path in special if tag not in "HM" and mode != "160000"]
    repos = {name[:-5] for name in odd if name.endswith("/.git")}
    whole = {path.rstrip("/") for path in rows.untracked if path.endswith("/")}
    whole |= {path for _, mode, path in special if mode == "160000" and path in repos}
    whole |= {f"{name}/.git" for name in repos if not _is_below(name, whole)}
    files = dict.fromkeys([*rows.changed, *(path for path in rows.untracked if not path.endswith("/"))])
    files.update(dict.fromkeys(name for name in odd if not name.endswith("/.git")))
    files.update(dict.fromkeys(path for path in flagged if os.path.lexists(os.path.join(work, path))))
    if not is_copy and _can_convert_files(place, config, odd):  # of a copy git believes no file to be unchanged
        known = {*files, *rows.missing}
        plain = [
            p for tag, mode, p in raw_git.parse_index_rows(index) if tag == "H" and mode[:3] == "100" and p not in known
        ]
        files.update(dict.fromkeys(_list_converted_files(host, work, plain)))
    files.update(dict.fromkeys(tar.list_tree(host, work, sorted(whole))))
    return WorkTreeState(
        files=list(files),
        missing=rows.missing,
        dirty=[*rows.staged, *rows.changed, *rows.missing, *rows.untracked],
        blobs=rows.blobs,
        needs_index=bool(rows.staged or flagged),
        umask=umask,
        ignored_bytes=_compute_disk_usage(host, work, rows.ignored),
    )


def _parse_status(out: bytes) -> _StatusRows:
    """`git status --porcelain=v2 -z` by what it means for saving."""
    rows = _StatusRows(changed=[], missing=[], staged=[], untracked=[], ignored=[], blobs=[])
    for row in out.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        kind, _, rest = row.partition(" ")
        if kind == "?":
            rows.untracked.append(rest)
        elif kind == "!":
            rows.ignored.append(rest)
        elif kind == "1":
            xy, _, _, in_index, in_work, _, oid, path = rest.split(" ", 7)
            if xy[0] != "." or xy[1] == "A":
                rows.staged.append(path)
                if in_index not in _MODES_WITHOUT_BLOB:
                    rows.blobs.append(oid)
            if xy[1] == "D":
                rows.missing.append(path)
            elif xy[1] != "." and in_work != "160000":
                rows.changed.append(path)
        elif kind == "u":
            part = rest.split(" ", 9)
            rows.staged.append(part[9])
            rows.blobs.extend(o for o, m in zip(part[6:9], part[2:5], strict=True) if m not in _MODES_WITHOUT_BLOB)
            (rows.missing if part[5] == "000000" else rows.changed).append(part[9])
    return rows


def _list_odd_files(host: Host, work: str, ignored: list[str], umask: str | None) -> tuple[str, list[str]]:
    """The umask, and what `git status` says nothing of; not below what is ignored."""
    prunes = ["./.git", *("./" + path.rstrip("/") for path in ignored if path.endswith("/"))][:500]
    words = [word for path in prunes for word in ("-path", path.translate(FIND_ESCAPES), "-prune", "-o")]
    begin = f"umask {umask}\n" if umask else ""
    result = host.run(["sh", "-c", begin + _FIND_ODD_FILES, "find", work, *words])
    tar.check_read_result(result, work)
    umask, *found = result.out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    left_out = set(ignored)
    below = {path.rstrip("/") for path in ignored if path.endswith("/")}
    names = (name.removeprefix("./") for name in found)
    return umask, [name for name in names if name not in left_out and not _is_below(name, below)]


def _is_below(name: str, places: set[str]) -> bool:
    """Whether `name` is one of these directories or in one."""
    while name:
        if name in places:
            return True
        name = os.path.dirname(name)
    return False


def _can_convert_files(place: WorkTreeRepo, config: dict[str, str], odd: list[str]) -> bool:
    """Whether any rule could make a file differ from what git holds."""
    if config.get("core.autocrlf", "false").lower() in ("true", "input", "1", "yes", "on"):
        return True
    if "core.attributesfile" in config or any(name.rpartition("/")[2] == ".gitattributes" for name in odd):
        return True
    user = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    places = (os.path.join(place.common_dir, "info"), os.path.join(user, "git"))
    return any(os.path.exists(os.path.join(p, "attributes")) for p in places) or os.path.exists("/etc/gitattributes")


def _list_converted_files(host: Host, work: str, names: list[str]) -> list[str]:
    """Files that may differ from what git holds although it calls them unchanged: a filter's, or with CR in them."""
    if not names:
        return []
    listed = "\0".join(names).encode("utf-8", "surrogateescape")
    words = ("-c", "core.fsmonitor=false", "check-attr", "-z", "--stdin", *_CONVERTING_ATTRIBUTES)
    asked = git.run(host, work, *words, stdin=listed)
    if asked.code:
        raise MngrError(f"git check-attr failed in {work}: {asked.error_line}", "mend its .gitattributes")
    told = asked.out.decode("utf-8", "surrogateescape").split("\0")
    found = [path for path, value in zip(told[0::3], told[2::3], strict=False) if value not in ("unspecified", "unset")]
    line = 'cd "$1" && LC_ALL=C exec xargs -0 grep -lsF --null -e "$2" --'
    with_cr = host.run(["sh", "-c", line, "grep", work, "\r"], stdin=b"\0".join(b"./" + n for n in listed.split(b"\0")))
    return [
        *found,
        *(n.removeprefix("./") for n in with_cr.out.decode("utf-8", "surrogateescape").split("\0") if n),
    ]


def _compute_disk_usage(host: Host, work: str, names: list[str]) -> int:
    """What these take on disk."""
    if not names:
        return 0
    listed = "\0".join(f"./{name}" for name in names).encode("utf-8", "surrogateescape")
    line = "cd \"$1\" && xargs -0 du -sk -- 2>/dev/null | awk '/^[0-9]+\\t/ { n += $1 } END { print n * 1024 }'"
    said = host.run(["sh", "-c", line, "du", work], stdin=listed).text
    return int(float(said)) if said else 0


def list_mentioned_objects(git_dir: str | None, form: str) -> list[str]:
    """Objects that reflogs, an unfinished merge or rebase and the like speak of."""
    if git_dir is None:
        return []
    size = 40 if form == "sha1" else 64
    found: dict[bytes, None] = {}
    for top, folders, files in os.walk(git_dir):
        if top == git_dir:
            folders[:] = [name for name in folders if name not in _UNSCANNED_DIRS]
        for name in files:
            path = os.path.join(top, name)
            is_log = path.startswith(os.path.join(git_dir, "logs", ""))
            if name == "index" or not os.path.isfile(path) or os.path.islink(path):
                continue  # a pipe would never end
            if os.path.getsize(path) > 4096 and not is_log:
                continue
            with open(path, "rb") as file:
                words = (word for line in file for word in line[: 2 * size + 1].split()[:2])
                found.update(
                    dict.fromkeys(word for word in words if len(word) == size and _HEX_DIGITS.issuperset(word))
                )
    return [oid.decode() for oid in found if oid.strip(b"0")]
