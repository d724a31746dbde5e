"""`mngr tmr integrate` after a change of mind: changes left out and taken back, a base that moved, people's commits, a pull request."""

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

from mngr.testkit.contract.program import clean_up, new_env
from mngr.tmr.changes.rejections import RejectionFile
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for

pytestmark = pytest.mark.agents

TEST = '''import {name}


def test_{name}():
    """{name} of 6 and 3 is {value}."""
    assert {name}.{name}(6, 3) == {value}
'''
DEF = "def {name}(a, b):\n    return a {sign} b\n"
PYTEST = {"MNGR__PROJECT__PYTEST": f"{sys.executable} -m pytest -q -p no:cacheprovider"}
FIXED = {"result": {"outcome": "fixed", "before": "fail", "after": "pass"}}


# What an integrator answers: to the question of order first without reasons, then the other way round, and a paragraph.
ORDER = """
import json, os, re
said = open(os.environ["MNGR_AGENT_DIR"] + "/transcript.jsonl").read()
ids = list(dict.fromkeys(re.findall(r"\\\\n([0-9a-f]{6,}), ", said)))
rows = [{"changes": sorted(ids, reverse=True), "reason": REASON}]
json.dump(rows, open(os.environ["MNGR_OUTPUT_DIR"] + "/order.json", "w"))
"""


def answer(reason: str) -> dict[str, Any]:
    return {"run": f"python3 - <<'END'{ORDER.replace('REASON', repr(reason))}END"}


def mend(name: str, sign: str) -> list[dict[str, Any]]:
    edit = {"path": f"{name}.py", "old": "a + b", "new": f"a {sign} b"}
    return [{"edit": edit}, {"commit": f"[FIX_IMPL] {name}: {sign}"}, FIXED]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository with a run in which two functions were mended and a test was made better."""
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
    better = [
        {"run": "echo '    assert add.add(0, 0) == 0' >>tests/test_add.py"},
        {"commit": "[IMPROVE_TEST] Nothing and nothing"},
        {"result": {"outcome": "improved", "before": "pass", "after": "pass"}},
    ]
    cases = {"*test_sub": mend("sub", "-"), "*test_mul": mend("mul", "*"), "*test_add": better}
    cases["order-*"] = [answer(""), "wait", answer("It is <b>seen</b> by all")]
    cases["prose-*"] = [{"run": "echo 'Two signs were wrong.' >$MNGR_OUTPUT_DIR/prose.md"}]
    steps = {"steps": [], "cases": [{"task": task, "steps": do} for task, do in cases.items()]}
    words = ["--runs", "1", "--verify-runs", "1", "--agent", "player", "--agent-arg", json.dumps(steps)]
    done = MngrProgram(repo, Path(env["MNGR_HOME"]), {**env, **PYTEST}).run_json(
        "tmr", "run", "--name", "r", *words, timeout=180
    )
    assert done["integration"]["verdict"] == "green" and done["integration"]["left_out"] == []
    yield repo
    clean_up(root)


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Iterator[MngrProgram]:
    """The same, to change one's mind about."""
    env = new_env(tmp_path)
    shutil.copytree(made, tmp_path / "repo", symlinks=True)
    yield MngrProgram(tmp_path / "repo", Path(env["MNGR_HOME"]), {**env, **PYTEST})
    clean_up(tmp_path)


def integrated(project: MngrProgram) -> dict[str, Any]:
    path = Path(project.repo, ".mngr/runs/r/integration.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def subjects(project: MngrProgram, since: str = "main") -> list[str]:
    return run_git(project.repo, "log", "--reverse", "--format=%s", f"{since}..mngr/r/integrated").split("\n")


def change_of(project: MngrProgram, word: str) -> str:
    rows = project.run_json("tmr", "changes", "r")["changes"]
    return str(next(row["id"] for row in rows if word in row["title"]))


def test_left_out_taken_back_and_on_another_base(project: MngrProgram) -> None:
    first = run_git(project.repo, "rev-parse", "mngr/r/integrated")
    test, *fixes = subjects(project)
    assert test == "[TEST/DOC] 1 change of 1 task"
    assert sorted(fixes) == ["[FIX_IMPL] mul: *", "[FIX_IMPL] sub: -"]
    checkout = run_git(project.repo, "status", "--porcelain", "--branch")
    name = change_of(project, "mul: *")
    done = project("tmr", "integrate", "r", "--without", name, "--reason", "twice is enough")
    assert "left out by wish: twice is enough" in done.out
    assert "red again: tests/test_mul.py::test_mul" in done.out
    assert "[FIX_IMPL] mul: *" not in subjects(project) and len(subjects(project)) == 2
    assert [one.reason for one in RejectionFile(str(project.repo)).read().values()] == ["twice is enough"]
    assert "twice is enough" in Path(project.repo, ".mngr/runs/r/PR.md").read_text()
    done = project("tmr", "integrate", "r", "--format", "jsonl")  # it holds
    assert json.loads(done.out)["verdict"] == "green"
    assert len(subjects(project)) == 2
    project("tmr", "integrate", "r", "--with", name)
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == first
    assert RejectionFile(str(project.repo)).read() == {}
    project("tmr", "integrate", "r", "--only", "tests")
    assert subjects(project) == ["[TEST/DOC] 1 change of 1 task"]
    project("tmr", "integrate", "r", "--only", "all")
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == first
    assert run_git(project.repo, "status", "--porcelain", "--branch") == checkout
    (project.repo / "new.txt").write_text("new\n")
    (project.repo / "mul.py").write_text("def mul(a, b):\n    return a * b\n")
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "Meanwhile")
    project("tmr", "integrate", "r", "--onto", "main")
    assert integrated(project)["onto"] == run_git(project.repo, "rev-parse", "main")
    assert run_git(project.repo, "merge-base", "main", "mngr/r/integrated") == run_git(
        project.repo, "rev-parse", "main"
    )
    assert [row["why"] for row in integrated(project)["left_out"]] == ["already"]
    assert "[FIX_IMPL] mul: *" not in subjects(project)


def test_an_integrator_says_which_of_equals_comes_first_and_a_paragraph(project: MngrProgram) -> None:
    before = subjects(project)
    plan = Path(project.repo, ".mngr/runs/r/run.json")
    text = plan.read_text()
    plan.write_text(json.dumps({**json.loads(text), "integrator": "player"}))  # as `tmr run` writes it
    project("tmr", "integrate", "r")
    plan.write_text(text)
    row = integrated(project)["ranked"][0]
    assert row["changes"] == sorted((change_of(project, name) for name in ("sub: -", "mul: *")), reverse=True)
    assert subjects(project) == [before[0], before[2], before[1]], "which was by id"
    told = Path(project.repo, ".mngr/runs/r/PR.md").read_text()
    assert "; `tmr-r-order-" in told and "` puts it first: It is " in told and "<b>" not in told
    assert "` says:_ Two signs were wrong." in told
    head, agents = run_git(project.repo, "rev-parse", "mngr/r/integrated"), project.list_agents()
    project("tmr", "integrate", "r", "--integrator", "player")
    assert project.list_agents() == agents, "nobody is asked twice"
    project("tmr", "integrate", "r")
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == head and "Two signs" in told, "it holds"
    assert integrated(project)["prose"]["words"] == "Two signs were wrong."
    project("tmr", "integrate", "r", "--without", row["changes"][0])
    assert integrated(project).get("prose") is None, "it was about another branch"


def test_commits_of_people_stay_on_the_branch(project: MngrProgram, tmp_path: Path) -> None:
    repo, mine = project.repo, tmp_path / "mine"
    run_git(repo, "worktree", "add", "-q", str(mine), "mngr/r/integrated")
    (mine / "NOTES").write_text("looked at\n")
    run_git(mine, "add", "-A")
    run_git(mine, "commit", "-qm", "Looked at it")
    name = change_of(project, "mul: *")
    done = project("tmr", "integrate", "r", "--without", name, code=1)
    assert "is checked out in" in done.err
    assert run_git(mine, "log", "-1", "--format=%s") == "Looked at it"
    run_git(mine, "switch", "-q", "--detach")
    project("tmr", "integrate", "r")
    assert run_git(repo, "rev-parse", "mngr/r/integrated") == run_git(mine, "rev-parse", "HEAD")
    for wish in ("--without", "--with", "--without"):
        project("tmr", "integrate", "r", wish, name)
        assert subjects(project)[-1] == "Looked at it" and subjects(project).count("Looked at it") == 1
        assert ("[FIX_IMPL] mul: *" in subjects(project)) is (wish == "--with")
        assert run_git(repo, "show", "mngr/r/integrated:NOTES") == "looked at"
    run_git(repo, "update-ref", "refs/heads/mngr/r/integrated", run_git(repo, "rev-parse", "main"))
    done = project("tmr", "integrate", "r", "--with", name, code=1)
    assert "is not the one that was delivered" in done.err
    run_git(repo, "update-ref", "-d", "refs/heads/mngr/r/integrated")  # who throws it away gets it anew
    project("tmr", "integrate", "r", "--with", name)
    assert "[FIX_IMPL] mul: *" in subjects(project)


def test_an_open_pull_request_gets_reverts(project: MngrProgram, tmp_path: Path) -> None:
    repo, far, bin_ = project.repo, tmp_path / "far.git", tmp_path / "bin"
    run_git(repo, "clone", "-q", "--bare", str(repo), str(far))
    run_git(repo, "remote", "add", "origin", str(far))
    bin_.mkdir()
    log = tmp_path / "gh.log"
    (bin_ / "gh").write_text(
        f'#!/bin/sh\necho "$@" >>{log}\ncase "$2" in create|view) echo https://forge.invalid/1;; esac\n'
    )
    (bin_ / "gh").chmod(0o755)
    project.env["PATH"] = f"{bin_}:{project.env.get('PATH', os.environ['PATH'])}"
    run_git(repo, "branch", "release")
    project("tmr", "integrate", "r", "--onto", "release")
    project("tmr", "integrate", "r", "--pr")
    assert "--draft" in log.read_text() and "--base release" in log.read_text()
    before = run_git(repo, "rev-parse", "mngr/r/integrated")
    assert run_git(far, "rev-parse", "mngr/r/integrated") == before
    name = change_of(project, "mul: *")
    project("tmr", "integrate", "r", "--without", name, "--reason", "no", "--update-pr")
    after = run_git(far, "rev-parse", "mngr/r/integrated")
    assert run_git(far, "rev-parse", f"{after}^") == before
    assert run_git(far, "log", "-1", "--format=%s", after) == 'Revert "[FIX_IMPL] mul: *"'
    assert "a + b" in run_git(far, "show", f"{after}:mul.py") and "a - b" in run_git(far, "show", f"{after}:sub.py")
    project("tmr", "integrate", "r", "--with", name)  # looked at here, before it is shown
    project("tmr", "integrate", "r", "--update-pr")
    again = run_git(far, "rev-parse", "mngr/r/integrated")
    assert run_git(far, "rev-parse", f"{again}^") == after and "a * b" in run_git(far, "show", f"{again}:mul.py")
    theirs = run_git(far, "commit-tree", f"{again}^{{tree}}", "-p", again, "-m", "Mine")
    run_git(far, "update-ref", "refs/heads/mngr/r/integrated", theirs)
    run_git(repo, "fetch", "-q", "origin", "mngr/r/integrated:refs/remotes/origin/mngr/r/integrated")
    for more in ([], ["--rewrite"]):
        done = project("tmr", "integrate", "r", "--without", name, "--update-pr", *more, code=1)
        assert "has commits at origin that are not here" in done.err
    run_git(far, "update-ref", "refs/heads/mngr/r/integrated", again)
    run_git(repo, "fetch", "-q", "origin", "+mngr/r/integrated:refs/remotes/origin/mngr/r/integrated")
    project("tmr", "integrate", "r", "--without", name, "--update-pr", "--rewrite")
    assert [row["kind"] for row in integrated(project)["commits"]] == ["test", "fix"]
    assert run_git(far, "rev-list", "--count", "main..mngr/r/integrated") == "2"


def test_killed_it_goes_on_and_gives_the_same(project: MngrProgram) -> None:
    head = run_git(project.repo, "rev-parse", "mngr/r/integrated")
    name = change_of(project, "mul: *")
    words = ["tmr", "integrate", "r", "--without", name]
    process = subprocess.Popen([str(BIN_DIR / "mngr"), *words], cwd=project.repo, env=project.env)
    wait_for(
        lambda: any(agent["name"] == "tmr-r-jury-1" for agent in project.list_agents()) or process.poll() is not None
    )
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    project(*words)
    assert len(subjects(project)) == 2
    project("tmr", "integrate", "r", "--with", name)
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == head
    assert [agent["name"] for agent in project.list_agents() if "jury" in agent["name"]] == []


def test_bad_input_is_told(project: MngrProgram) -> None:
    assert "is no change, no task and no commit" in project("tmr", "integrate", "r", "--without", "zzz", code=1).err
    assert "--reason without --without" in project("tmr", "integrate", "r", "--reason", "x", code=2).err
    assert "--rewrite without --update-pr" in project("tmr", "integrate", "r", "--rewrite", code=2).err
    assert "there is no commit 'nowhere'" in project("tmr", "integrate", "r", "--onto", "nowhere", code=1).err
    assert "no agent kind 'nobody'" in project("tmr", "integrate", "r", "--integrator", "nobody", code=1).err


def test_a_test_that_comes_and_goes_blames_nobody(project: MngrProgram, tmp_path: Path) -> None:
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
    path.write_text(json.dumps({**json.loads(path.read_text()), "walls": "off"}))
    project("tmr", "integrate", "r", "--onto", "moved")
    found = integrated(project)
    assert (found["verdict"], found["left_out"]) == ("green", [])
    assert found["flaky"] == ["tests/test_flaky.py::test_flaky"]


@pytest.mark.full
def test_in_full_each_claim_is_looked_at_more_closely(project: MngrProgram) -> None:
    before = run_git(project.repo, "rev-parse", "mngr/r/integrated")
    project("tmr", "integrate", "r", "--verify", "full", timeout=120)
    receipts = [json.loads(path.read_text()) for path in project.repo.glob(".mngr/runs/r/tasks/*/receipt.json")]
    assert {(row["level"], row["verdict"]) for row in receipts} == {("full", "confirmed")}
    better = next(row for row in receipts if "test_add" in row["test"])
    assert better["mutation"]["state"] == "compared", "the test that was edited was compared with what it was"
    assert run_git(project.repo, "rev-parse", "mngr/r/integrated") == before
