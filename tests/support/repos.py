"""Helpers for repositories in tests: make commits, compare work trees, set traps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mngr.testkit.contract.mngr_program import commit_file, list_refs, read_tree, run_git

__all__ = ["commit_file", "list_refs", "plant", "read_tree", "status"]


def status(directory: Path) -> list[str]:
    """Return what git reports as changed."""
    completed = subprocess.run(
        ["git", "-C", str(directory), "status", "--porcelain=v1", "-z", "-uall", "--no-renames"],
        capture_output=True,
        check=True,
    )
    return sorted(os.fsdecode(completed.stdout).split("\0"))


def plant(work: Path, proof: Path) -> None:
    """Configure a repository so that every git operation that can run a program does so."""
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
        run_git(work, "config", key, value)
    for hooks_dir in ("traps", "hooks"):
        (work / ".git" / hooks_dir).mkdir(exist_ok=True)
        for name in "pre-receive update post-receive post-checkout post-merge reference-transaction pre-auto-gc post-index-change".split():
            trap = work / ".git" / hooks_dir / name
            trap.write_text(f"#!/bin/sh\ntouch {proof}\n")
            trap.chmod(0o755)
