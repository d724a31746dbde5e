"""A run's folder with a hundred branches in it, made quickly, and the tasks that claim them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from mngr.base import clock
from mngr.base.paths import Home
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, Task, TaskState
from mngr.providers.local import LocalHost
from mngr.tmr.changes.changes import Change, collect_changes
from mngr.tmr.changes.deduplicate import deduplicate_changes
from mngr.tmr.changes.excluded import ExcludedTask
from mngr.tmr.integrate.compose import ComposedBranch, compose_branch

Commit = tuple[str, dict[str, Any]]  # message, files
Files = dict[str, Any]  # text, None for a file that goes, or (mode, text or object)


def function(number: int, body: str = "return 0") -> str:
    return f"def f{number}(a):\n    {body}\n\n\n"


def app(**bodies: str) -> str:
    """A module of forty functions, of which some are other than on the base."""
    return "".join(function(number, bodies.get(f"f{number}", "return 0")) for number in range(40))


BASE: Files = {
    "src/app.py": app(),
    "src/other.py": "A = 1\n\n\nB = 2\n\n\nC = 3\n",
    "tests/test_app.py": "def test_app():\n    assert True\n",
    "tests/helper.py": "ONE = 1\n\n\nTWO = 2\n",
    "README.md": "# App\n",
}


class Field:
    """A run's folder with a repository into which branches are put, and the tasks that claim them."""

    def __init__(self, root: Path) -> None:
        self.run = RunDir(str(root), "r")
        self.repo = self.run.repo
        os.makedirs(self.run.tasks)
        subprocess.run(["git", "init", "-q", "--bare", "--template=", self.repo], check=True)
        self.local = LocalHost(Home(str(root / "home")))
        self.state = RunState(tasks={}, recipe_rows={}, alerts=[])
        self.base = self.commits("", ("base", BASE))[-1]
        self.git("update-ref", self.run.ref_name("base"), self.base)

    def git(self, *words: str, stdin: bytes = b"") -> str:
        done = subprocess.run(["git", "-C", self.repo, *words], input=stdin, capture_output=True, check=True)
        return done.stdout.decode().removesuffix("\n")

    def commits(self, parent: str, *rows: Commit, author: str = "Ann <ann@x>") -> list[str]:
        """Commits one on the other."""
        return self.many([(parent, rows, author)])[0]

    def many(self, chains: list[tuple[str, tuple[Commit, ...], str]]) -> list[list[str]]:
        """Several such chains at once."""
        script = b""
        mark = 0
        for parent, rows, author in chains:
            for number, (message, files) in enumerate(rows, 1):
                above = f":{mark}" if number > 1 else parent
                mark += 1
                text = message.encode()
                script += f"commit refs/x\nmark :{mark}\nauthor {author} {1000 + number} +0000\n".encode()
                script += f"committer {author} {2000 + number} +0000\ndata {len(text)}\n".encode() + text + b"\n"
                script += f"from {above}\n".encode() if above else b""
                script += b"".join(self.file(path, what) for path, what in files.items())
                script += b"\nget-mark :%d\n" % mark
        made = iter(self.git("fast-import", "--quiet", "--force", stdin=script).split("\n"))
        return [[next(made) for _ in rows] for _, rows, _ in chains]

    def file(self, path: str, what: Any) -> bytes:
        mode, data = what if isinstance(what, tuple) else ("100644", what)
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
        """A task whose agent made these commits, and the receipt for the last."""
        made = self.commits(base or self.base, *rows, author=author)
        self.settle(slug, made, base, verdict, task, claim, **check)
        return made

    def claims(self, rows: dict[str, tuple[Commit, ...]]) -> None:
        """Many of them, by as many authors."""
        chains = [(self.base, some, f"{slug} <{slug}@x>") for slug, some in rows.items()]
        for slug, made in zip(rows, self.many(chains), strict=True):
            self.settle(slug, made)

    def settle(
        self, slug: str, made: list[str], base: str = "", verdict: str = "confirmed", task: dict[str, Any] | None = None,
        claim: dict[str, Any] | None = None, **check: Any,
    ) -> None:  # fmt: skip
        receipt = {
            "test": f"tests/test_app.py::{slug}", "verdict": verdict, "reason": f"it is {verdict}", "policy": [], "guard": [],
            "findings": [], "proofs": [], "results": [{"outcome": "pass"}] * 3, **check,
        }  # fmt: skip
        outcome = "fixed" if verdict == "confirmed" else verdict
        self.state.tasks[slug] = TaskState(
            task=Task(slug=slug, title=f"tests/test_app.py::{slug}", data=task or {}), state="settled", agent=f"tmr-r-{slug}",
            base=base or self.base, commit=made[-1], check=receipt, outcome=outcome, reason=receipt["reason"], claim=claim or {},
        )  # fmt: skip

    def write(self, going: str = "") -> None:
        """The run's plan and journal, as `tmr run` leaves them; `going` is a task that is not done yet."""
        plan = {"v": 1, "kind": "tmr", "base": self.base, "pytest": ["pytest"]}
        Path(self.run.plan).write_text(json.dumps(plan))
        rows: list[dict[str, Any]] = []
        for slug, one in self.state.tasks.items():
            rows += [
                {"type": "task", "task": one.task.to_dict()},
                {"type": "launch", "slug": slug, "agent": one.agent, "attempt": 1, "base": one.base},
                {"type": "pulled", "slug": slug, "commit": one.commit, "claim": one.claim, "final": True},
                {"type": "checked", "slug": slug, "check": one.check},
                {"type": "settled", "slug": slug, "outcome": one.outcome, "reason": one.reason},
            ]
        if going:
            rows += [
                {"type": "task", "task": Task(slug=going, title=going).to_dict()},
                {"type": "prompted", "slug": going},
            ]
        stamped = [{"v": 1, "at": clock.format_timestamp(), **row} for row in rows]
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
