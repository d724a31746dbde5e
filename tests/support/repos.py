"""What tests do with repositories: make commits, compare work trees, and lay traps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mngr.testkit.contract.program import commit_file, list_refs, read_tree, run_git

__all__ = ["commit_file", "list_refs", "plant", "read_tree", "status"]


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
        run_git(work, "config", key, value)
    for place in ("traps", "hooks"):
        (work / ".git" / place).mkdir(exist_ok=True)
        for name in "pre-receive update post-receive post-checkout post-merge reference-transaction pre-auto-gc post-index-change".split():
            trap = work / ".git" / place / name
            trap.write_text(f"#!/bin/sh\ntouch {proof}\n")
            trap.chmod(0o755)
