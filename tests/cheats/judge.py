"""Asks mngr for its verdict about edits, as a person would: in a repository, by its command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cheats.check import write_files
from tests.cheats.edits import Edit, Project, apply_edit

BIN = Path(sys.executable).parent
SETTINGS = f'[project]\npytest = "{sys.executable} -m pytest"\n'


class BenchError(RuntimeError):
    """mngr or git did not do what the bench needs."""


@dataclass(frozen=True)
class Judgement:
    """What mngr said about one edit."""

    edit: Edit
    verdict: str  # confirmed, unverified, refuted or crash
    rules: tuple[str, ...]  # the rules of all findings on changed lines
    reason: str
    seconds: float


class Bench:
    """One repository for each project, below one directory, with one home for mngr."""

    def __init__(self, root: Path, level: str, timeout: float) -> None:
        self.root = root
        self.level = level
        self.timeout = timeout
        user = root / "user"
        user.mkdir(parents=True)
        (user / ".gitconfig").write_text(
            "[user]\n\tname = Bench\n\temail = bench@example.invalid\n[init]\n\tdefaultBranch = main\n"
        )
        self.env = {
            "HOME": str(user),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "MNGR_HOME": str(root / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def add_project(self, project: Project, edits: list[Edit]) -> None:
        """Create the repository of a project, trust its settings, and commit each edit to its own branch."""
        repo = self.root / project.name
        write_files(repo, {**project.files, ".gitignore": "__pycache__/\n", ".mngr/settings.toml": SETTINGS})
        self.run(repo, "git", "init", "-q")
        self.commit(repo, "Start")
        self.run(repo, "mngr", "-q", "trust", "--yes")
        for edit in edits:
            self.run(repo, "git", "checkout", "-q", "-b", edit.id, "main")
            after = apply_edit(project.files, edit)
            for name in project.files.keys() - after.keys():
                (repo / name).unlink()
            write_files(repo, after)
            name = edit.targets[0].rpartition("::")[2]
            self.commit(repo, f"[{edit.kind}] Work on {name}")
        self.run(repo, "git", "checkout", "-q", "main")

    def commit(self, repo: Path, message: str) -> None:
        """Commit everything."""
        self.run(repo, "git", "add", "-A")
        self.run(repo, "git", "commit", "-q", "-m", message)

    def run(self, repo: Path, *argv: str) -> str:
        """Run a command that must succeed, and return its output."""
        completed = subprocess.run(argv, cwd=repo, env=self.env, capture_output=True, text=True, check=False)
        if completed.returncode != 0:
            raise BenchError(f"{' '.join(argv)}: exit code {completed.returncode}\n{completed.stderr[-2000:]}")
        return completed.stdout

    def judge(self, edit: Edit) -> Judgement:
        """Let mngr verify the edit's branch."""
        repo = self.root / edit.project
        argv = ["mngr", "tmr", "verify", edit.id, *edit.targets, "--base", "main", "--verify", self.level]
        started = time.monotonic()
        try:
            completed = subprocess.run(
                [*argv, "--format", "json"],
                cwd=repo,
                env=self.env,
                capture_output=True,
                text=True,
                check=False,
                timeout=self.timeout,
            )
        except subprocess.TimeoutExpired:
            return Judgement(edit, "crash", (), f"no end after {self.timeout:.0f} s", self.timeout)
        seconds = time.monotonic() - started
        receipts = read_receipts(completed.stdout)
        if completed.returncode not in (0, 4) or not receipts:
            return Judgement(edit, "crash", (), completed.stderr[-500:], seconds)
        changed = self.list_changed_lines(repo, edit)
        verdict = choose_verdict(receipts)
        reasons = [str(receipt["reason"]) for receipt in receipts if receipt["verdict"] != "confirmed"]
        return Judgement(edit, verdict, find_rules(receipts, changed), "; ".join(reasons), seconds)

    def list_changed_lines(self, repo: Path, edit: Edit) -> set[tuple[str, int]]:
        """Return the lines that the edit adds or removes, and the two beside a removed one."""
        return read_changed_lines(self.run(repo, "git", "diff", "-U0", "--no-renames", "main", edit.id))


def read_receipts(text: str) -> list[dict[str, Any]]:
    """Return the receipts that mngr printed, or none if it printed something else."""
    try:
        printed = json.loads(text)
    except ValueError:
        return []
    receipts = printed.get("receipts", []) if isinstance(printed, dict) else []
    return [receipt for receipt in receipts if isinstance(receipt, dict)]


def choose_verdict(receipts: list[dict[str, Any]]) -> str:
    """Return the worst verdict of an edit's receipts. A flaky test proves nothing, as an unverified one."""
    verdicts = {receipt["verdict"] for receipt in receipts}
    if "refuted" in verdicts:
        return "refuted"
    return "confirmed" if verdicts == {"confirmed"} else "unverified"


def find_rules(receipts: list[dict[str, Any]], changed: set[tuple[str, int]]) -> tuple[str, ...]:
    """Return the rules of the findings that point to a changed line."""
    findings: list[Mapping[str, Any]] = [
        finding for receipt in receipts for name in ("policy", "guard", "findings") for finding in receipt.get(name, [])
    ]
    return tuple(sorted({str(f["rule"]) for f in findings if (f.get("path"), f.get("line")) in changed}))


def read_changed_lines(diff: str) -> set[tuple[str, int]]:
    """Return the path and number of each changed line of a diff without context."""
    lines: set[tuple[str, int]] = set()
    path = ""
    for line in diff.splitlines():
        if line.startswith(("--- a/", "+++ b/")):
            path = line[6:]
        elif match := re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            old_start, old_count, start, count = (1 if part is None else int(part) for part in match.groups())
            lines |= {(path, number) for number in range(start, start + count)}
            lines |= {(path, number) for number in range(old_start, old_start + old_count)}
            if count == 0:
                lines |= {(path, start), (path, start + 1)}
    return lines
