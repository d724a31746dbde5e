"""git on bytes: a git dir of our own in front of an agent's files, so that nobody's settings, filters or hooks apply."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.shell import ProcessResult
from mngr.host import git
from mngr.host.protocol import Host

_CONFIG = """\
[core]
	repositoryformatversion = {version}
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	autocrlf = false
	eol = lf
	fsmonitor = false
	untrackedCache = false
	splitIndex = false
	sparseCheckout = false
"""
_ATTRIBUTES = "* -text -crlf -eol -ident -filter -working-tree-encoding\n"


class WorkTreeRepo(Struct):
    """Where a work tree's repository is and where it stands."""

    git_dir: str | None  # None when only the repository behind it is left
    common_dir: str  # shared by all its worktrees
    object_format: str  # sha1 or sha256
    head: str | None  # None before the first commit
    branch: str | None  # None when detached


def find_work_tree_repo(host: Host, work: str) -> WorkTreeRepo | None:
    """What stands in a work tree; None when it is not the top of one."""
    ask = (
        "rev-parse",
        "--path-format=absolute",
        "--git-dir",
        "--git-common-dir",
        "--show-object-format",
        "--show-toplevel",
    )
    said = git.run(host, work, *ask, "HEAD")
    lines = said.text.split("\n")
    if len(lines) < 4 or os.path.realpath(lines[3]) != os.path.realpath(work):
        return None
    start = host.read(os.path.join(lines[0], "HEAD")).decode("utf-8", "surrogateescape").strip()
    branch = start.removeprefix("ref: refs/heads/") if start.startswith("ref: refs/heads/") else None
    return WorkTreeRepo(
        git_dir=lines[0],
        common_dir=lines[1],
        object_format=lines[2],
        head=lines[4] if said.code == 0 else None,
        branch=branch,
    )


def make_raw_git_dir(target: str, place: WorkTreeRepo, exclude: str | None = None) -> str:
    """The git dir of our own: the same objects, index and HEAD, and settings that leave every byte as it is."""
    os.makedirs(os.path.join(target, "refs"))
    os.mkdir(os.path.join(target, "info"))
    config = _CONFIG.format(version=0 if place.object_format == "sha1" else 1)
    if exclude is not None:
        config += '\texcludesFile = "' + exclude.replace("\\", "\\\\").replace('"', '\\"') + '"\n'
    if place.object_format != "sha1":
        config += f"[extensions]\n\tobjectFormat = {place.object_format}\n"
    head = place.head or f"ref: refs/heads/{place.branch or 'unborn'}"
    for name, text in (("HEAD", head + "\n"), ("config", config), ("info/attributes", _ATTRIBUTES)):
        with open(os.path.join(target, name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    links = [("objects", place.common_dir), ("info/exclude", place.common_dir), ("shallow", place.common_dir)]
    if place.git_dir is not None:
        links.append(("index", place.git_dir))
        links.extend((name, place.git_dir) for name in os.listdir(place.git_dir) if name.startswith("sharedindex."))
    for name, where in links:
        path = os.path.join(where, name)
        if name == "index" or os.path.exists(path):
            os.symlink(path, os.path.join(target, name))
    return target


def remove_raw_git_dir(raw: str) -> None:
    """Take it away again."""
    for top, folders, files in os.walk(raw, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(top, name)
            if os.path.islink(path) or not os.path.isdir(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    if os.path.isdir(raw):
        os.rmdir(raw)


def run(host: Host, raw: str, work: str, *words: str, stdin: bytes = b"") -> ProcessResult:
    """git through the git dir of our own; a failure is a Result."""
    argv = [
        "git",
        "-C",
        work,
        f"--git-dir={raw}",
        f"--work-tree={work}",
        "--no-optional-locks",
        "--no-replace-objects",
    ]
    return host.run([*argv, *words], stdin=stdin)


def run_checked(host: Host, raw: str, work: str, *words: str, stdin: bytes = b"") -> bytes:
    """git through the git dir of our own; what it printed, or MngrError."""
    result = run(host, raw, work, *words, stdin=stdin)
    if result.code:
        raise MngrError(
            f"git {words[0]} failed on {work}: {result.error_line}",
            "nothing was changed; look at the work dir with git",
        )
    return result.out


def list_index_rows(host: Host, raw: str, work: str) -> list[bytes]:
    """The rows of the index, as `parse` reads them."""
    return run_checked(host, raw, work, "ls-files", "--stage", "-v", "-z").split(b"\0")[:-1]


def parse_index_rows(rows: list[bytes]) -> list[tuple[str, str, str]]:
    """(tag, mode, path) of rows of the index; the tag is H, or tells of a flag or a conflict (git help ls-files)."""
    parts = (row.decode("utf-8", "surrogateescape").partition("\t") for row in rows)
    return [(front[0], front[2:8], path) for front, _, path in parts]
