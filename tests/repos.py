"""What tests do with repositories: make commits, compare work trees, and lay traps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import git


def commit(where: Path, name: str = "more.txt", text: str = "more\n") -> str:
    """Write a file and commit everything; the commit."""
    (where / name).write_text(text)
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", f"change {name}")
    return git(where, "rev-parse", "HEAD")


def refs(where: Path) -> dict[str, str]:
    """Every ref and what it points at."""
    rows = git(where, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(row.split(" ") for row in rows)


def tree(where: Path) -> dict[str, tuple[str, object]]:
    """Every file, link and directory below, with what is in it; not git's own."""
    found: dict[str, tuple[str, object]] = {}
    for top, directories, files in os.walk(os.fsencode(where)):
        directories[:] = [d for d in directories if d != b".git"]
        for name in [*directories, *files]:
            path = Path(os.fsdecode(os.path.join(top, name)))
            key = os.fsdecode(os.path.relpath(os.path.join(top, name), os.fsencode(where)))
            if key == ".git":
                continue
            if path.is_symlink():
                found[key] = ("link", os.readlink(path))
            elif path.is_dir():
                found[key] = ("dir", None)
            else:
                found[key] = ("file", (path.read_bytes(), path.stat().st_mode & 0o111))
    return found


def status(where: Path) -> list[str]:
    """What git calls dirty."""
    done = subprocess.run(
        ["git", "-C", str(where), "status", "--porcelain=v1", "-z", "-uall", "--no-renames"],
        capture_output=True,
        check=True,
    )
    return sorted(os.fsdecode(done.stdout).split("\0"))


def plant(work: Path, proof: Path) -> None:
    """Set a repository to run things wherever git lets one."""
    line = f"touch {proof}; cat"
    for key, value in {
        "core.fsmonitor": f"touch {proof}; false",
        "filter.evil.clean": line,
        "filter.evil.smudge": line,
        "diff.evil.textconv": line,
        "diff.external": line,
        "merge.evil.driver": f"touch {proof}; false",
        "core.alternateRefsCommand": line,
        "gpg.program": f"{line} #",
        "commit.gpgSign": "true",
        "core.hooksPath": str(work / ".git/traps"),
        "url.ext::sh -c touch% .insteadOf": "/",
        "protocol.ext.allow": "always",
    }.items():
        git(work, "config", key, value)
    for place in ("traps", "hooks"):
        (work / ".git" / place).mkdir(exist_ok=True)
        for name in "pre-receive update post-receive post-checkout post-merge reference-transaction pre-auto-gc post-index-change".split():
            trap = work / ".git" / place / name
            trap.write_text(f"#!/bin/sh\ntouch {proof}\n")
            trap.chmod(0o755)
