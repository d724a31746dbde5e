"""Repeated `mngr tmr integrate`: exclusions, a new base, people's commits and a pull request."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.base.paths import Home
from mngr.mapreduce.run_dir import RunDir
from mngr.testkit.contract.mngr_program import clean_up, new_env
from mngr.tmr.changes.rejection_reasons import RejectionFile
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for
from tests.support.own_runs import adopt_run

pytestmark = pytest.mark.agents

TEST = '''import {name}


def test_{name}():
    """{name} of 6 and 3 is {value}."""
    assert {name}.{name}(6, 3) == {value}
'''
DEF = "def {name}(a, b):\n    return a {sign} b\n"
PYTEST = {"MNGR__PROJECT__PYTEST": f"{sys.executable} -m pytest -q -p no:cacheprovider"}
FIXED = {"result": {"outcome": "fixed", "before": "fail", "after": "pass"}}


# The integrator's answers: first an order without reasons, then the reversed order, and a paragraph.
ORDER = """
import json, os, re
said = open(os.environ["MNGR_AGENT_DIR"] + "/transcript.jsonl").read()
ids = list(dict.fromkeys(re.findall(r"\\\\n([0-9a-f]{6,}), ", said)))
rows = [{"changes": sorted(ids, reverse=True), "reason": REASON}]
json.dump(rows, open(os.environ["MNGR_OUTPUT_DIR"] + "/order.json", "w"))
"""


def order_step(reason: str) -> dict[str, Any]:
    return {"run": f"python3 - <<'END'{ORDER.replace('REASON', repr(reason))}END"}


def fix_steps(name: str, sign: str) -> list[dict[str, Any]]:
    edit = {"path": f"{name}.py", "old": "a + b", "new": f"a {sign} b"}
    return [{"edit": edit}, {"commit": f"[FIX_IMPL] {name}: {sign}"}, FIXED]


@pytest.fixture(scope="module")
def integrated_repo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a repository with a run that repaired two functions and improved a test."""
    root = tmp_path_factory.mktemp("made")
    repo, env = root / "repo", new_env(root)
    (repo / "tests").mkdir(parents=True)
    (repo / "conftest.py").write_text("")
    for name, value in (("add", 9), ("sub", 3), ("mul", 18)):
        (repo / f"{name}.py").write_text(DEF.format(name=name, sign="+"))
        (repo / f"tests/test_{name}.py").write_text(TEST.format(name=name, value=value))
    run_git(repo, "init", "-q", "-b", "main", ".")
    run_git(repo, "config", "user.name", "U")
    run_git(repo, "config", "user.email", "u@example.invalid")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-qm", "a calculator")
    improve_steps = [
        {"run": "echo '    assert add.add(0, 0) == 0' >>tests/test_add.py"},
        {"commit": "[IMPROVE_TEST] Nothing and nothing"},
        {"result": {"outcome": "improved", "before": "pass", "after": "pass"}},
    ]
    cases = {"*test_sub": fix_steps("sub", "-"), "*test_mul": fix_steps("mul", "*"), "*test_add": improve_steps}
    cases["order-*"] = [order_step(""), "wait", order_step("It is <b>seen</b> by all")]
    cases["prose-*"] = [{"run": "echo 'Two signs were wrong.' >$MNGR_OUTPUT_DIR/prose.md"}]
    steps = {"steps": [], "cases": [{"task": task, "steps": case_steps} for task, case_steps in cases.items()]}
    options = ["--runs", "1", "--verify-runs", "1", "--agent", "player", "--agent-arg", json.dumps(steps)]
    report = MngrProgram(repo, Path(env["MNGR_HOME"]), {**env, **PYTEST}).run_json(
        "tmr", "run", "--name", "r", *options, timeout=180
    )
    assert report["integration"]["verdict"] == "green" and report["integration"]["excluded"] == []
    yield repo
    clean_up(root)


@pytest.fixture
def project(integrated_repo: Path, tmp_path: Path) -> Iterator[MngrProgram]:
    """Return a copy of the integrated repository for one test."""
    env = new_env(tmp_path)
    shutil.copytree(integrated_repo, tmp_path / "repo", symlinks=True)
    adopt_run(Path(env["MNGR_HOME"]), RunDir(str(tmp_path / "repo"), "r"))
    yield MngrProgram(tmp_path / "repo", Path(env["MNGR_HOME"]), {**env, **PYTEST})
    clean_up(tmp_path)


def read_integration(project: MngrProgram) -> dict[str, Any]:
    path = Path(project.repo, ".mngr/runs/r/integration.json")
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def subjects(project: MngrProgram, since: str = "main") -> list[str]:
    return run_git(project.repo, "log", "--reverse", "--format=%s", f"{since}..mngr/r/integrated").split("\n")


def find_change(project: MngrProgram, word: str) -> str:
    rows = project.run_json("tmr", "changes", "r")["changes"]
    return str(next(row["id"] for row in rows if word in row["title"]))


def test_a_change_can_be_excluded_restored_and_moved_to_another_base(project: MngrProgram) -> None:
    first = run_git(project.repo, "rev-parse", "mngr/r/integrated")
    test, *fixes = subjects(project)
    assert test == "[TEST/DOC] 1 change from 1 task"
    assert sorted(fixes) == ["[FIX_IMPL] mul: *", "[FIX_IMPL] sub: -"]
    checkout = run_git(project.repo, "status", "--porcelain", "--branch")
    name = find_change(project, "mul: *")
    process = project("tmr", "integrate", "r", "--without", name, "--reason", "twice is enough")
    assert "a person excluded it: twice is enough" in process.out
    assert "these tests passed on the previous branch and fail now: tests/test_mul.py::test_mul" in process.out
    assert "[FIX_IMPL] mul: *" not in subjects(project) and len(subjects(project)) == 2
    assert [
        rejection.reason for rejection in RejectionFile(Home(str(project.home)), str(project.repo)).read().values()
    ] == ["twice is enough"]
    assert "twice is enough" in Path(project.repo, ".mngr/runs/r/PR.md").read_text()
    process = project("tmr", "integrate", "r", "--format", "jsonl")  # the exclusion still holds
    assert json.loads(process.out)["verdict"] == "green"
    assert len(subjects(project)) == 2
    project("tmr", "integrate", "r", "--with", name)
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == first
    assert RejectionFile(Home(str(project.home)), str(project.repo)).read() == {}
    project("tmr", "integrate", "r", "--only", "tests")
    assert subjects(project) == ["[TEST/DOC] 1 change from 1 task"]
    project("tmr", "integrate", "r", "--only", "all")
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == first
    assert run_git(project.repo, "status", "--porcelain", "--branch") == checkout
    (project.repo / "new.txt").write_text("new\n")
    (project.repo / "mul.py").write_text("def mul(a, b):\n    return a * b\n")
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "Meanwhile")
    project("tmr", "integrate", "r", "--onto", "main")
    assert read_integration(project)["onto"] == run_git(project.repo, "rev-parse", "main")
    assert run_git(project.repo, "merge-base", "main", "mngr/r/integrated") == run_git(
        project.repo, "rev-parse", "main"
    )
    assert [row["why"] for row in read_integration(project)["excluded"]] == ["already"]
    assert "[FIX_IMPL] mul: *" not in subjects(project)


def test_an_integrator_agent_orders_equal_fixes_and_writes_a_summary(project: MngrProgram) -> None:
    before = subjects(project)
    plan = Path(project.repo, ".mngr/runs/r/run.json")
    text = plan.read_text()
    plan.write_text(json.dumps({**json.loads(text), "integrator": "player"}))  # as `tmr run` writes it
    project("tmr", "integrate", "r")
    plan.write_text(text)
    row = read_integration(project)["advised_orders"][0]
    assert row["changes"] == sorted((find_change(project, name) for name in ("sub: -", "mul: *")), reverse=True)
    assert subjects(project) == [before[0], before[2], before[1]], "which was by id"
    pr_text = Path(project.repo, ".mngr/runs/r/PR.md").read_text()
    assert (
        "; the agent `tmr-r-order-" in pr_text and "` ranks this fix first: It is " in pr_text and "<b>" not in pr_text
    )
    assert "`: Two signs were wrong." in pr_text
    head, agents = run_git(project.repo, "rev-parse", "mngr/r/integrated"), project.list_agents()
    project("tmr", "integrate", "r", "--integrator", "player")
    assert project.list_agents() == agents, "nobody is asked twice"
    project("tmr", "integrate", "r")
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == head and "Two signs" in pr_text, "it holds"
    assert read_integration(project)["summary"]["text"] == "Two signs were wrong."
    project("tmr", "integrate", "r", "--without", row["changes"][0])
    assert read_integration(project).get("summary") is None, "it was about another branch"


def test_commits_that_people_add_stay_on_the_branch(project: MngrProgram, tmp_path: Path) -> None:
    repo, worktree = project.repo, tmp_path / "mine"
    run_git(repo, "worktree", "add", "-q", str(worktree), "mngr/r/integrated")
    (worktree / "NOTES").write_text("looked at\n")
    run_git(worktree, "add", "-A")
    run_git(worktree, "commit", "-qm", "Looked at it")
    name = find_change(project, "mul: *")
    process = project("tmr", "integrate", "r", "--without", name, code=1)
    assert "is checked out in" in process.err
    assert run_git(worktree, "log", "-1", "--format=%s") == "Looked at it"
    run_git(worktree, "switch", "-q", "--detach")
    project("tmr", "integrate", "r")
    assert run_git(repo, "rev-parse", "mngr/r/integrated") == run_git(worktree, "rev-parse", "HEAD")
    for option in ("--without", "--with", "--without"):
        project("tmr", "integrate", "r", option, name)
        assert subjects(project)[-1] == "Looked at it" and subjects(project).count("Looked at it") == 1
        assert ("[FIX_IMPL] mul: *" in subjects(project)) is (option == "--with")
        assert run_git(repo, "show", "mngr/r/integrated:NOTES") == "looked at"
    run_git(repo, "update-ref", "refs/heads/mngr/r/integrated", run_git(repo, "rev-parse", "main"))
    process = project("tmr", "integrate", "r", "--with", name, code=1)
    assert "is not the branch that mngr created" in process.err
    run_git(repo, "update-ref", "-d", "refs/heads/mngr/r/integrated")  # a deleted branch is created again
    project("tmr", "integrate", "r", "--with", name)
    assert "[FIX_IMPL] mul: *" in subjects(project)


def test_excluding_a_change_adds_a_revert_to_an_open_pull_request(project: MngrProgram, tmp_path: Path) -> None:
    repo, remote, bin_dir = project.repo, tmp_path / "far.git", tmp_path / "bin"
    run_git(repo, "clone", "-q", "--bare", str(repo), str(remote))
    run_git(repo, "remote", "add", "origin", str(remote))
    bin_dir.mkdir()
    log = tmp_path / "gh.log"
    (bin_dir / "gh").write_text(
        f'#!/bin/sh\necho "$@" >>{log}\ncase "$2" in create|view) echo https://forge.invalid/1;; esac\n'
    )
    (bin_dir / "gh").chmod(0o755)
    project.env["PATH"] = f"{bin_dir}:{project.env.get('PATH', os.environ['PATH'])}"
    run_git(repo, "branch", "release")
    project("tmr", "integrate", "r", "--onto", "release")
    project("tmr", "integrate", "r", "--pr")
    assert "--draft" in log.read_text() and "--base release" in log.read_text()
    before = run_git(repo, "rev-parse", "mngr/r/integrated")
    assert run_git(remote, "rev-parse", "mngr/r/integrated") == before
    name = find_change(project, "mul: *")
    project("tmr", "integrate", "r", "--without", name, "--reason", "no", "--update-pr")
    after = run_git(remote, "rev-parse", "mngr/r/integrated")
    assert run_git(remote, "rev-parse", f"{after}^") == before
    assert run_git(remote, "log", "-1", "--format=%s", after) == 'Revert "[FIX_IMPL] mul: *"'
    assert "a + b" in run_git(remote, "show", f"{after}:mul.py") and "a - b" in run_git(
        remote, "show", f"{after}:sub.py"
    )
    project("tmr", "integrate", "r", "--with", name)  # reviewed locally before it is published
    project("tmr", "integrate", "r", "--update-pr")
    restored = run_git(remote, "rev-parse", "mngr/r/integrated")
    assert run_git(remote, "rev-parse", f"{restored}^") == after and "a * b" in run_git(
        remote, "show", f"{restored}:mul.py"
    )
    foreign_commit = run_git(remote, "commit-tree", f"{restored}^{{tree}}", "-p", restored, "-m", "Mine")
    run_git(remote, "update-ref", "refs/heads/mngr/r/integrated", foreign_commit)
    run_git(repo, "fetch", "-q", "origin", "mngr/r/integrated:refs/remotes/origin/mngr/r/integrated")
    for options in ([], ["--rewrite"]):
        process = project("tmr", "integrate", "r", "--without", name, "--update-pr", *options, code=1)
        assert "has commits on origin that are not in this repository" in process.err
    run_git(remote, "update-ref", "refs/heads/mngr/r/integrated", restored)
    run_git(repo, "fetch", "-q", "origin", "+mngr/r/integrated:refs/remotes/origin/mngr/r/integrated")
    project("tmr", "integrate", "r", "--without", name, "--update-pr", "--rewrite")
    assert [row["kind"] for row in read_integration(project)["commits"]] == ["test", "fix"]
    assert run_git(remote, "rev-list", "--count", "main..mngr/r/integrated") == "2"


def test_a_killed_integration_can_be_repeated_with_the_same_result(project: MngrProgram) -> None:
    head = run_git(project.repo, "rev-parse", "mngr/r/integrated")
    name = find_change(project, "mul: *")
    command = ["tmr", "integrate", "r", "--without", name]
    process = subprocess.Popen([str(BIN_DIR / "mngr"), *command], cwd=project.repo, env=project.env)
    wait_for(
        lambda: (
            any(agent["name"] == "tmr-r-integration-1" for agent in project.list_agents()) or process.poll() is not None
        )
    )
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    project(*command)
    assert len(subjects(project)) == 2
    project("tmr", "integrate", "r", "--with", name)
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == head
    assert [agent["name"] for agent in project.list_agents() if "-integration-" in agent["name"]] == []


def test_invalid_options_are_explained(project: MngrProgram) -> None:
    assert "this run has no change, task or commit" in project("tmr", "integrate", "r", "--without", "zzz", code=1).err
    assert "--reason needs --without" in project("tmr", "integrate", "r", "--reason", "x", code=2).err
    for url in ("javascript:1", "https://ci.example/<b>", "file:///tmp/report"):
        assert "is not a web address" in project("tmr", "integrate", "r", "--report-url", url, code=2).err
    assert "--rewrite needs --update-pr" in project("tmr", "integrate", "r", "--rewrite", code=2).err
    assert "there is no commit 'nowhere'" in project("tmr", "integrate", "r", "--onto", "nowhere", code=1).err
    assert "no agent kind 'nobody'" in project("tmr", "integrate", "r", "--integrator", "nobody", code=1).err


def test_a_flaky_test_excludes_no_change(project: MngrProgram, tmp_path: Path) -> None:
    count = tmp_path / "count"
    run_git(project.repo, "switch", "-q", "-c", "moved")
    flaky = project.repo / "tests/test_flaky.py"
    flaky.write_text(
        "import pathlib\n\n\ndef test_flaky():\n"
        f"    at = pathlib.Path({str(count)!r})\n"
        "    at.write_text(at.read_text() + 'x' if at.exists() else 'x')\n"
        "    assert len(at.read_text()) % 2 == 0\n"
    )
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "a test that fails now and then")
    path = Path(project.repo, ".mngr/runs/r/run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "isolation": "off"}))
    project("tmr", "integrate", "r", "--onto", "moved")
    data = read_integration(project)
    assert (data["verdict"], data["excluded"]) == ("green", [])
    assert data["flaky"] == ["tests/test_flaky.py::test_flaky"]


@pytest.mark.full
def test_verify_full_makes_full_receipts_before_integrating(project: MngrProgram) -> None:
    before = run_git(project.repo, "rev-parse", "mngr/r/integrated")
    project("tmr", "integrate", "r", "--verify", "full", timeout=120)
    receipts = [json.loads(path.read_text()) for path in project.repo.glob(".mngr/runs/r/tasks/*/receipt.json")]
    assert {(row["level"], row["verdict"]) for row in receipts} == {("full", "confirmed")}
    improved = next(row for row in receipts if "test_add" in row["test"])
    outcomes = {row["name"]: row["outcome"] for row in improved["experiments"]}
    assert outcomes["old_and_new"] != "not_examined", "the test that was edited was compared with what it was"
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == before
