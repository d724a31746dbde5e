"""Builds a project and the folder of a settled run on it, with known conflicts and the truth about each task."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mngr.base import time_format
from mngr.mapreduce.run_dir import RunDir, create_run_dir, make_slug
from tests.support import reduce_shop as plants
from tests.support.reduce_shop import Branch, Shop

PLUGINS = "cacheprovider xdist xdist.looponfail hypothesispytest mngr-e2e".split()  # not needed here, and slow to load
PYTEST = [sys.executable, "-m", "pytest", "-q", *(word for name in PLUGINS for word in ("-p", f"no:{name}"))]
BEGAN = 1_790_000_000
WHO = "Shop <shop@example.invalid>"
# Each round plants 10 textual conflicts of 15 branches.
ROUND = (
    plants.features,
    plants.alternatives,
    plants.chain,
    plants.cases,
    lambda shop: plants.alternatives(shop, 3),
    plants.chain,
)
EDGES = (1, 1, 2, 1, 3, 2)


@dataclass
class World:
    """The project, its run, and what is true about each task."""

    root: Path  # the project's directory
    run: RunDir
    base: str
    shop: Shop
    tasks: dict[str, Branch]  # by slug
    commits: dict[str, list[str]]  # the commits of each task
    trees: dict[str, str]  # the tree of each task's last commit
    red: set[str]  # tests that fail on the base

    @property
    def tests(self) -> int:
        """The number of tests on the base."""
        return len(self.shop.tests)

    def members(self, group: int) -> list[str]:
        return [slug for slug, branch in self.tasks.items() if branch.group == group]

    def git(self, *words: str, cwd: str | Path | None = None) -> str:
        argv = ["git", "-C", str(cwd or self.root), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.removesuffix("\n")


def make_world(
    root: Path, *, branches: int = 100, tests: int | None = None, seconds: float = 0.0, seed: int = 7, name: str = "r",
) -> World:  # fmt: skip
    """Create a world in a new directory. The same arguments give the same world.

    Of 100 branches, 20 are textual conflicts, 10 semantic ones, 20 repeat the same fix and 5 break other tests.
    """
    shop = _planted(branches, branches * 6 // 5 if tests is None else tests, seconds, seed)
    root.mkdir(parents=True)
    run = create_run_dir(str(root), name)
    subprocess.run(["git", "init", "-q", "--bare", "--template=", run.repo], check=True)
    base, branch_commits = _imported(shop, run)
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    slugs = [make_slug(branch.test) for branch in shop.branches]
    world = World(
        root,
        run,
        base,
        shop,
        dict(zip(slugs, shop.branches, strict=True)),
        dict(zip(slugs, branch_commits, strict=True)),
        {},
        {test for test, red in shop.tests.items() if red},
    )
    world.git("fetch", "-q", run.repo, f"{run.ref_name('base')}:refs/mngr/none")
    world.git("update-ref", "-d", "refs/mngr/none")
    world.git("reset", "-q", "--hard", base)
    trees = world.git("rev-parse", *(f"{commits[-1]}^{{tree}}" for commits in branch_commits), cwd=run.repo).split()
    world.trees.update(zip(slugs, trees, strict=True))
    _write(world)
    return world


def _planted(branches: int, tests: int, seconds: float, seed: int) -> Shop:
    shop = Shop(seed, seconds)
    conflicts, number = round(branches * 0.2), 0
    while shop.edges < conflicts:
        index = number % len(ROUND)
        plant = ROUND[index] if EDGES[index] <= conflicts - shop.edges else plants.alternatives
        plant(shop)
        number += 1
    for number in range(round(branches * 0.1)):
        (plants.units, plants.renamed, plants.stricter)[number % 3](shop)
    plants.same(shop, max(3, round(branches * 0.2)))
    plants.squash(shop)
    for number in range(round(branches * 0.05) - 1):
        plants.breaker(shop, number % 4)
    for number in range(branches - len(shop.branches)):
        plants.harmless(shop, number % 5)
    plants.rest(shop, tests - len(shop.tests))
    assert len(shop.branches) == branches and len(shop.tests) == tests, (len(shop.branches), len(shop.tests))
    return shop


# Commits


def _imported(shop: Shop, run: RunDir) -> tuple[str, list[list[str]]]:
    """Create the base and the commits of each branch with one call of git, and return them."""
    rows = [("base", "", "The shop", shop.files)]
    for branch in shop.branches:
        files = dict(shop.files)
        for number, (message, edits) in enumerate(branch.commits):
            touched = {path for path, _, _ in edits}
            for path, old, new in edits:
                assert old in files[path], (path, old)
                files[path] = files[path].replace(old, new, 1)
            rows.append(
                (
                    make_slug(branch.test),
                    "" if number else "base",
                    message,
                    {path: files[path] for path in sorted(touched)},
                )
            )
    script, marks = b"", dict[str, int]()
    for mark, (slug, parent_slug, message, files) in enumerate(rows, 1):
        parent = marks.get(parent_slug or slug)
        marks[slug] = mark
        author = f"{WHO} {BEGAN + mark} +0000"
        script += f"commit {run.ref_name(slug)}\nmark :{mark}\nauthor {author}\ncommitter {author}\n".encode() + _data(
            f"{message}\n"
        )
        script += f"from :{parent}\n".encode() if parent else b""
        script += b"".join(f"M 100644 inline {path}\n".encode() + _data(text) for path, text in files.items())
        script += b"get-mark :%d\n" % mark
    argv = ["git", "-C", run.repo, "fast-import", "--quiet"]
    names = iter(subprocess.run(argv, input=script, capture_output=True, check=True).stdout.decode().split())
    base = next(names)
    branch_commits = [[next(names) for _ in branch.commits] for branch in shop.branches]
    subprocess.run(["git", "-C", run.repo, "update-ref", "refs/heads/main", base], check=True)
    return base, branch_commits


def _data(text: str) -> bytes:
    data = text.encode()
    return b"data %d\n" % len(data) + data + b"\n"


# The files of the run


def _write(world: World) -> None:
    run = world.run
    plan = {
        "v": 1, "kind": "tmr", "base": world.base, "pytest": PYTEST, "paths": [], "args": [], "program": None, "agent": "player",
        "agent_args": ["[]"], "on": "", "agents_per_host": 0, "transfer": "mirror", "sandbox": False, "network": None, "yolo": False,
        "only": "all", "changed_since": None, "baseline_runs": 1, "receipt_runs": 1, "verify": "quick", "test_on": "", "isolation": "on", "policy": {},
        "test_timeout": 600.0, "tutorial": None, "root_cause_attempts": 3, "limits": {
            "max_agents": 10, "max_starting": 4, "budget": None, "budget_per_day": None, "max_tokens": None, "deadline": None,
            "timeout": 3600.0, "stall_timeout": 600.0, "free_memory": 1 << 30, "free_disk": 1 << 30, "alarm": 5, "on_alarm": "pause", "canary": 3,
        },
    }  # fmt: skip
    Path(run.plan).write_text(json.dumps(plan, indent=2))
    Path(run.path, "root_causes.json").write_text(json.dumps({"v": 1, "root_causes": []}, indent=1))
    rows = _baseline(world)
    for slug, branch in world.tasks.items():
        rows.append({"type": "task", "task": {"slug": slug, "title": branch.test, "expected_seconds": 0.5, "priority": 2 * branch.is_red, "data": {"kind": "test"}}})  # fmt: skip
    for slug in world.tasks:
        rows += _worked(world, slug)
    rows.append({"type": "ended", "outcome": "settled", "why": None})
    with open(run.journal, "w", encoding="utf-8") as file:
        for number, row in enumerate(rows):
            timestamp = time_format.format_timestamp(BEGAN + number / 10)
            file.write(json.dumps({"v": 1, "at": timestamp, **row}) + "\n")


def _baseline(world: World) -> list[dict[str, Any]]:
    tests = {path: _tests(path, text) for path, text in world.shop.files.items() if "/test_" in path}
    rows: list[dict[str, Any]] = [
        {"type": "tests_collected", "tests": [test for path in sorted(tests) for test in tests[path]]},
        {"type": "tests_chosen"},
    ]
    for test in (test for path in sorted(tests) for test in tests[path]):
        name, is_red = test["id"], test["id"] in world.red
        frame = {"path": test["path"], "line": test["line"] + 2, "function": test["name"], "project": True}
        failure = {
            "id": name, "when": "call", "exception": "AssertionError", "cause": "", "message": f"assert {name}", "frames": [frame],
            "text": f">       assert {name}", "sections": {},
        }  # fmt: skip
        rows.append({"type": "baseline_run", "run": {
            "test": name, "outcome": "fail" if is_red else "pass", "why": f"AssertionError: assert {name}" if is_red else "",
            "seconds": 0.5, "cpu": 0.4, "exit_code": int(is_red), "ids": {name: "fail" if is_red else "pass"}, "missing": [],
            "failures": [failure] if is_red else [], "reruns": 0, "command": " ".join([*PYTEST, name]), "imported_from": {"shop": "shop/__init__.py"},
            "wrong_code": [], "resolved": {}, "output": "", "transcripts": {}, "artifacts": [], "left": 0,
            "environment": {"python": "3.11", "pytest": "9", "platform": "linux"}, "isolation": "on", "findings": [], "lines": {},
            "loaded": sorted(_loaded(world.shop.files, test["path"])),
        }})  # fmt: skip
    counts = {"pass": world.tests - len(world.red), "fail": len(world.red)}
    rows.append({"type": "baseline", "tests": world.tests, "counts": counts, "skipped": 0, "root_causes": 0})
    return rows


def _tests(path: str, text: str) -> list[dict[str, Any]]:
    """Return the tests of a file as pytest collects them."""
    return [
        {"id": f"{path}::{node.name}", "ids": [f"{path}::{node.name}"], "path": path, "line": node.lineno, "name": node.name,
         "doc": ast.get_docstring(node) or "", "markers": []}
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]  # fmt: skip


def _loaded(files: dict[str, str], path: str) -> set[str]:
    """Return the files that a file loads, by its imports."""
    names = [
        node.module.replace(".", "/")
        for node in ast.walk(ast.parse(files[path]))
        if isinstance(node, ast.ImportFrom) and node.module
    ]
    candidates = [f"{name}.py" for name in names] + [f"tests/{name}.py" for name in names]
    nested = (_loaded(files, name) for name in candidates if name in files)
    return {path, "shop/__init__.py", "tests/conftest.py"}.union(*nested)


def _worked(world: World, slug: str) -> list[dict[str, Any]]:
    """Return the journal rows of one task, and write its files."""
    branch, commits = world.tasks[slug], world.commits[slug]
    has_fix = any(_is_fix(path) for _, edits in branch.commits for path, _, _ in edits)
    outcome = "fixed" if has_fix else "improved"
    changes = [
        {"kind": message[1:].partition("]")[0], "summary": message.partition("] ")[2], "commits": [commit]}
        for (message, _), commit in zip(branch.commits, commits, strict=True)
    ]
    claim = {
        "v": 1, "task": branch.test, "outcome": outcome, "before": "fail" if branch.is_red else "pass", "after": "pass", "summary": "It is done.",
        "changes": changes, "escalations": [], "runs": [],
    }  # fmt: skip
    check = _receipt(world, slug, changes)
    task_dir = Path(world.run.task_path(slug))
    (task_dir / "outputs").mkdir(parents=True)
    for path, data in (("outputs/result.json", claim), ("result.json", claim), ("receipt.json", check)):
        (task_dir / path).write_text(json.dumps(data, indent=1))
    (task_dir / "prompt.md").write_text(f"Make {branch.test} right.\n")
    (task_dir / "transcript.jsonl").write_text("")
    usage = {"group": f"tmr-{world.run.name}-{slug}", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": 0}  # fmt: skip
    return [
        {"type": "launch", "slug": slug, "agent": f"tmr-{world.run.name}-{slug}", "attempt": 1, "base": world.base},
        {"type": "launched", "slug": slug, "id": f"a-{_hash(slug)[:12]}", "host": "local"},
        {"type": "prompted", "slug": slug, "proof": "transcript"},
        {"type": "pull", "slug": slug, "close_reason": None},
        {"type": "pulled", "slug": slug, "commit": commits[-1], "commits": len(commits), "claim": claim, "usage": usage,
         "tokens_before_edit": 0, "dirty": False, "final": True, "error": None},
        {"type": "check", "slug": slug},
        {"type": "checked", "slug": slug, "check": check},
        {"type": "settled", "slug": slug, "outcome": outcome, "reason": None},
    ]  # fmt: skip


def _receipt(world: World, slug: str, changes: list[dict[str, Any]]) -> dict[str, Any]:
    branch, commits = world.tasks[slug], world.commits[slug]
    path, _, name = branch.test.partition("::")
    before = "fail" if branch.is_red else "pass"
    reason = f"AssertionError: assert {branch.test}"
    proofs = [
        {"fixes": [commit], "subject": message, "before": before, "before_why": reason if branch.is_red else "",
         "without": "fail" if branch.is_needed else "pass", "without_why": reason if branch.is_needed else "", "is_needed": branch.is_needed,
         "is_same_reason": True if branch.is_red else None, "reason": ""}
        for (message, edits), commit in zip(branch.commits, commits, strict=True)
        if any(_is_fix(path) for path, _, _ in edits)
    ]  # fmt: skip
    policy = [
        {"rule": "policy-conftest", "level": "note", "path": flagged, "line": 1, "what": "a file that other tests share", "old": "", "new": ""}
        for flagged in branch.flagged
    ]  # fmt: skip
    tree = world.trees[slug]
    return {
        "v": 1, "test": branch.test, "verdict": "confirmed", "reason": "it passed 1 of 1 times", "commit": commits[-1], "base": world.base,
        "tree": tree, "level": "quick", "command": [*PYTEST, branch.test], "runs": 1,
        "results": [{"outcome": "pass", "seconds": 0.5, "cpu": 0.4, "exit_code": 0}], "affected_tests": [], "rate": None,
        "imported_from": {"shop": "shop/__init__.py"}, "policy": policy, "guard": [], "findings": [], "proofs": proofs, "experiments": [],
        "isolation": "on", "environment": {"python": "3.11", "pytest": "9", "platform": "linux", "packages": "0"},
        "hashes": {"tree": tree, "command": _hash(branch.test), "environment": _hash("")},
        "rerun": {
            "test": {"id": branch.test, "ids": [branch.test], "path": path, "line": 1, "name": name, "doc": "", "markers": []}, "affected_tests": [],
            "is_shared": False, "is_one_of_many": False, "claimed_changes": changes, "pytest": PYTEST, "args": [], "timeout": 600.0, "program": None,
        },
        "seed": 1, "seconds": 0.5,
    }  # fmt: skip


def _is_fix(path: str) -> bool:
    return path.startswith("shop/")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def run_tests(directory: Path, *words: str) -> dict[str, bool]:
    """Run pytest in a directory and return which tests passed. An unreadable file counts as one test."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [*PYTEST, "-rA", "--tb=no", "--continue-on-collection-errors", *words]
    completed = subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, check=False)
    rows = [
        line.split(" ") for line in completed.stdout.splitlines() if line.startswith(("PASSED ", "FAILED ", "ERROR "))
    ]
    assert rows, completed.stdout + completed.stderr
    return {row[1]: row[0] == "PASSED" for row in rows}
