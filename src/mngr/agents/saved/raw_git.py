"""Runs git on the exact bytes of an agent's files.

It uses a temporary git dir next to the agent's own, so that no settings, filters or hooks of the user or the agent
apply.
"""

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
    """The repository of a work tree: its directories, its object format and its HEAD."""

    git_dir: str | None  # None when the work tree is gone and only its repository is left
    common_dir: str  # shared by all its worktrees
    object_format: str  # sha1 or sha256
    head: str | None  # None before the first commit
    branch: str | None  # None when detached


def find_work_tree_repo(host: Host, work_dir: str) -> WorkTreeRepo | None:
    """Return the repository of a work tree, or None if the directory is not the top of a work tree."""
    words = (
        "rev-parse",
        "--path-format=absolute",
        "--git-dir",
        "--git-common-dir",
        "--show-object-format",
        "--show-toplevel",
    )
    result = git.run(host, work_dir, *words, "HEAD")
    lines = result.text.split("\n")
    if len(lines) < 4 or os.path.realpath(lines[3]) != os.path.realpath(work_dir):
        return None
    head_text = host.read(os.path.join(lines[0], "HEAD")).decode("utf-8", "surrogateescape").strip()
    branch = head_text.removeprefix("ref: refs/heads/") if head_text.startswith("ref: refs/heads/") else None
    return WorkTreeRepo(
        git_dir=lines[0],
        common_dir=lines[1],
        object_format=lines[2],
        head=lines[4] if result.code == 0 else None,
        branch=branch,
    )


def make_raw_git_dir(target: str, repo: WorkTreeRepo, exclude: str | None = None) -> str:
    """Create a raw git dir at `target` and return its path.

    It links to the repository's objects and index, has the same HEAD, and its settings leave every byte unchanged.
    """
    os.makedirs(os.path.join(target, "refs"))
    os.mkdir(os.path.join(target, "info"))
    config = _CONFIG.format(version=0 if repo.object_format == "sha1" else 1)
    if exclude is not None:
        config += '\texcludesFile = "' + exclude.replace("\\", "\\\\").replace('"', '\\"') + '"\n'
    if repo.object_format != "sha1":
        config += f"[extensions]\n\tobjectFormat = {repo.object_format}\n"
    head = repo.head or f"ref: refs/heads/{repo.branch or 'unborn'}"
    for name, text in (("HEAD", head + "\n"), ("config", config), ("info/attributes", _ATTRIBUTES)):
        with open(os.path.join(target, name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    links = [("objects", repo.common_dir), ("info/exclude", repo.common_dir), ("shallow", repo.common_dir)]
    if repo.git_dir is not None:
        links.append(("index", repo.git_dir))
        links.extend((name, repo.git_dir) for name in os.listdir(repo.git_dir) if name.startswith("sharedindex."))
    for name, directory in links:
        path = os.path.join(directory, name)
        if name == "index" or os.path.exists(path):
            os.symlink(path, os.path.join(target, name))
    return target


def remove_raw_git_dir(raw_git_dir: str) -> None:
    """Delete a raw git dir, without following its links."""
    for top, folders, files in os.walk(raw_git_dir, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(top, name)
            if os.path.islink(path) or not os.path.isdir(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    if os.path.isdir(raw_git_dir):
        os.rmdir(raw_git_dir)


def run(host: Host, raw_git_dir: str, work_dir: str, *words: str, stdin: bytes = b"") -> ProcessResult:
    """Run git through a raw git dir. A failure is a result, not an exception."""
    argv = [
        "git",
        "-C",
        work_dir,
        f"--git-dir={raw_git_dir}",
        f"--work-tree={work_dir}",
        "--no-optional-locks",
        "--no-replace-objects",
    ]
    return host.run([*argv, *words], stdin=stdin)


def run_checked(host: Host, raw_git_dir: str, work_dir: str, *words: str, stdin: bytes = b"") -> bytes:
    """Run git through a raw git dir and return its output. Raise MngrError if it fails."""
    result = run(host, raw_git_dir, work_dir, *words, stdin=stdin)
    if result.code:
        raise MngrError(
            f"git {words[0]} failed on {work_dir}: {result.error_line}",
            "nothing was changed; look at the work dir with git",
        )
    return result.out


def list_index_rows(host: Host, raw_git_dir: str, work_dir: str) -> list[bytes]:
    """Return the rows of the index, for `parse_index_rows`."""
    return run_checked(host, raw_git_dir, work_dir, "ls-files", "--stage", "-v", "-z").split(b"\0")[:-1]


def parse_index_rows(rows: list[bytes]) -> list[tuple[str, str, str]]:
    """Return (tag, mode, path) for each row of the index.

    The tag is H, or another letter for a flag or a conflict (see `git help ls-files`).
    """
    parts = (row.decode("utf-8", "surrogateescape").partition("\t") for row in rows)
    return [(prefix[0], prefix[2:8], path) for prefix, _, path in parts]
