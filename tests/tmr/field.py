"""A run's folder with many branches in its repository, created quickly, and the tasks that claim them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from mngr.base import time_format
from mngr.base.paths import Home
from mngr.mapreduce.journal.run_state import RunState, Task, TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.providers.local import LocalHost
from mngr.tmr.changes.collect_changes import Change, collect_changes
from mngr.tmr.changes.deduplicate import deduplicate_changes
from mngr.tmr.changes.list_exclusions import ExcludedTask
from mngr.tmr.integrate.compose import ComposedBranch, compose_branch

Commit = tuple[str, dict[str, Any]]  # message, files
Files = dict[str, Any]  # path -> text, None for a deleted file, or (mode, text or object)


def function(number: int, body: str = "return 0") -> str:
    return f"def f{number}(a):\n    {body}\n\n\n"


def app(**bodies: str) -> str:
    """Return a module of forty functions, some of which differ from the base."""
    return "".join(function(number, bodies.get(f"f{number}", "return 0")) for number in range(40))


BASE: Files = {
    "src/app.py": app(),
    "src/other.py": "A = 1\n\n\nB = 2\n\n\nC = 3\n",
    "tests/test_app.py": "def test_app():\n    assert True\n",
    "tests/helper.py": "ONE = 1\n\n\nTWO = 2\n",
    "README.md": "# App\n",
}


class Field:
    """A run's folder with a repository for branches, and the tasks that claim them."""

    def __init__(self, root: Path) -> None:
        self.run = RunDir(str(root), "r")
        self.repo = self.run.repo
        os.makedirs(self.run.tasks)
        subprocess.run(["git", "init", "-q", "--bare", "--template=", self.repo], check=True)
        self.local = LocalHost(Home(str(root / "home")))
        self.state = RunState()
        self.base = self.commits("", ("base", BASE))[-1]
        self.git("update-ref", self.run.ref_name("base"), self.base)

    def git(self, *words: str, stdin: bytes = b"") -> str:
        process = subprocess.run(["git", "-C", self.repo, *words], input=stdin, capture_output=True, check=True)
        return process.stdout.decode().removesuffix("\n")

    def commits(self, parent: str, *rows: Commit, author: str = "Ann <ann@x>") -> list[str]:
        """Create a chain of commits and return their ids."""
        return self.many([(parent, rows, author)])[0]

    def many(self, chains: list[tuple[str, tuple[Commit, ...], str]]) -> list[list[str]]:
        """Create several chains of commits at once."""
        script = b""
        mark = 0
        for parent, rows, author in chains:
            for number, (message, files) in enumerate(rows, 1):
                parent_ref = f":{mark}" if number > 1 else parent
                mark += 1
                text = message.encode()
                script += f"commit refs/x\nmark :{mark}\nauthor {author} {1000 + number} +0000\n".encode()
                script += f"committer {author} {2000 + number} +0000\ndata {len(text)}\n".encode() + text + b"\n"
                script += f"from {parent_ref}\n".encode() if parent_ref else b""
                script += b"".join(self.file(path, content) for path, content in files.items())
                script += b"\nget-mark :%d\n" % mark
        commit_ids = iter(self.git("fast-import", "--quiet", "--force", stdin=script).split("\n"))
        return [[next(commit_ids) for _ in rows] for _, rows, _ in chains]

    def file(self, path: str, content: Any) -> bytes:
        mode, data = content if isinstance(content, tuple) else ("100644", content)
        if data is None:
            return f'D "{path}"\n'.encode()
        if mode == "160000" or data.startswith("object "):
            return f'M {mode} {data.removeprefix("object ")} "{path}"\n'.encode()
        blob = str(data).encode()
        return f'M {mode} inline "{path}"\ndata {len(blob)}\n'.encode() + blob + b"\n"

    def claim(
        self, slug: str, *rows: Commit, base: str = "", verdict: str = "confirmed", author: str = "Ann <ann@x>",
        task: dict[str, Any] | None = None, claim: dict[str, Any] | None = None, **check: Any,
    ) -> list[str]:  # fmt: skip
        """Add a task whose agent made these commits, with a receipt for the last. Return the commits."""
        commits = self.commits(base or self.base, *rows, author=author)
        self.settle(slug, commits, base, verdict, task, claim, **check)
        return commits

    def claims(self, rows: dict[str, tuple[Commit, ...]]) -> None:
        """Add many tasks, each with its own author."""
        chains = [(self.base, chain, f"{slug} <{slug}@x>") for slug, chain in rows.items()]
        for slug, commits in zip(rows, self.many(chains), strict=True):
            self.settle(slug, commits)

    def settle(
        self, slug: str, commits: list[str], base: str = "", verdict: str = "confirmed", task: dict[str, Any] | None = None,
        claim: dict[str, Any] | None = None, **check: Any,
    ) -> None:  # fmt: skip
        receipt = {
            "test": f"tests/test_app.py::{slug}", "verdict": verdict, "reason": f"it is {verdict}", "policy": [], "guard": [],
            "commit": commits[-1], "command": ["pytest"], "runs": 3, "findings": [], "proofs": [], "results": [{"outcome": "pass"}] * 3, **check,
        }  # fmt: skip
        outcome = "fixed" if verdict == "confirmed" else verdict
        self.set_task(TaskState(
            task=Task(slug=slug, title=f"tests/test_app.py::{slug}", data=task or {}), state="settled", agent=f"tmr-r-{slug}",
            base=base or self.base, commit=commits[-1], check=receipt, outcome=outcome, reason=receipt["reason"], claim=claim or {},
        ))  # fmt: skip

    def set_task(self, task: TaskState) -> None:
        """Add a task to the run's state, or replace it."""
        self.state.tasks.put(task)

    def write(self, going: str = "") -> None:
        """Write the run's plan and journal as `tmr run` does. `going` is a task that is still running."""
        plan = {"v": 1, "kind": "tmr", "base": self.base, "pytest": ["pytest"]}
        Path(self.run.plan).write_text(json.dumps(plan))
        rows: list[dict[str, Any]] = []
        for slug, task in self.state.tasks.items():
            rows += [
                {"type": "task", "task": task.task.to_dict()},
                {"type": "launch", "slug": slug, "agent": task.agent, "attempt": 1, "base": task.base},
                {"type": "pulled", "slug": slug, "commit": task.commit, "claim": task.claim, "final": True},
                {"type": "checked", "slug": slug, "check": task.check},
                {"type": "settled", "slug": slug, "outcome": task.outcome, "reason": task.reason},
            ]
        if going:
            rows += [
                {"type": "task", "task": Task(slug=going, title=going).to_dict()},
                {"type": "prompted", "slug": going},
            ]
        stamped = [{"v": 1, "at": time_format.format_timestamp(), **row} for row in rows]
        Path(self.run.journal).write_text("".join(json.dumps(row) + "\n" for row in stamped))

    def changes(self) -> list[Change]:
        return self.split()[0]

    def split(self) -> tuple[list[Change], list[ExcludedTask]]:
        return collect_changes(self.local, self.run, self.state)

    def collapsed(self) -> list[Change]:
        return deduplicate_changes(self.local, self.repo, self.base, self.changes())

    def compose(self, chosen: list[Change], base: str = "") -> ComposedBranch:
        return compose_branch(self.local, self.repo, base or self.base, chosen)

    def show(self, commit: str, path: str) -> str:
        return self.git("show", f"{commit}:{path}") + "\n"

    def diff(self, change: Change) -> list[str]:
        return self.git("diff", "--name-only", change.parent, change.commit).split("\n")


def fix(number: int, body: str = "return 1") -> Files:
    return {"src/app.py": app(**{f"f{number}": body})}


def note(path: str, what: str = "look at it") -> dict[str, Any]:
    return {
        "rule": "policy-test",
        "level": "note",
        "path": path,
        "line": 1,
        "what": what,
        "old": "",
        "new": "",
    }
