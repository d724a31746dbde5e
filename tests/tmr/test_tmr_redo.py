"""`mngr tmr redo`: the agent that made a change makes it otherwise, and the branch is made again."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import TaskState, replay_rows
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for
from tests.tmr import test_tmr as tmr
from tests.tmr.test_tmr import FIXED, play, project, result

pytestmark = pytest.mark.agents

assert project  # the fixture
TURNED: list[Any] = [
    {"edit": {"path": "calc.py", "old": "a + b", "new": "b + a"}},
    {"commit": "[FIX_IMPL] The other way round"},
    result(outcome="fixed", before="fail", after="pass", summary="as you like it"),
]
SPENT = {"spend": {"input_tokens": 7, "output_tokens": 1, "cost_usd": 0.5}}


def task_of(project: MngrProgram, slug: str) -> TaskState:
    return replay_rows(read_journal(RunDir(str(project.repo), "r").journal)).tasks[slug]


def branch(project: MngrProgram) -> str:
    return run_git(project.repo, "show", "mngr/r/integrated:calc.py")


def test_its_agent_is_told_and_what_it_makes_of_it_takes_the_place_of_the_change(
    project: MngrProgram,
) -> None:
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    tmr.add_tests(project, one=(1, 1, 2))
    head = run_git(project.repo, "rev-parse", "HEAD")
    (task,) = play(project, {"*": [SPENT, *FIXED, "wait", SPENT, "wait", *TURNED, "wait", {"exit": 1}]})["tasks"]
    slug, agent = task["slug"], task["agent"]
    (change,) = project.run_json("tmr", "changes", "r")["changes"]
    assert "needs -m" in project("tmr", "redo", change["id"], code=2).err
    assert "is no change" in project("tmr", "redo", "ffffff0", "-m", "x", code=1).err
    done = project("tmr", "redo", change["id"][:4], "-m", "the other way round", "--format", "json", timeout=60)
    assert done.parse_json()["verdict"] == "green" and f"is for {agent} again" in done.err
    assert "b + a" in branch(project)
    assert run_git(project.repo, "rev-parse", "HEAD") == head and not run_git(project.repo, "status", "--porcelain")
    one = task_of(project, slug)
    assert (one.agent, one.outcome, one.claim["summary"]) == (agent, "fixed", "as you like it")
    assert one.check is not None and (one.check["verdict"], one.check["commit"]) == ("confirmed", one.commit)
    assert one.reminders == 1, "the result of before is no answer"
    assert {kind: used["cost_usd"] for kind, used in one.spend.items()} == {"work": 0.5, "redo": 0.5}
    rows = project.run_json("transcript", agent)["transcript"]
    said = [row["text"] for row in rows if row["role"] == "user"]
    assert len(said) == 3 and "the other way round" in said[1], "in the same conversation"

    words = [str(BIN_DIR / "mngr"), "tmr", "redo", slug, "-m", "once more"]
    process = subprocess.Popen(words, cwd=project.repo, env=project.env)
    journal = RunDir(str(project.repo), "r").journal
    wait_for(lambda: sum(row["type"] == "again" for row in read_journal(journal)) == 2)
    process.kill()
    process.wait()
    failed = project("tmr", "resume", "r", code=4, timeout=60)
    assert "all stays as it was" in failed.err and "b + a" in branch(project)
    again = task_of(project, slug)
    assert (again.commit, again.check, again.outcome) == (one.commit, one.check, "fixed")
    project("destroy", agent, "--force")
    gone = project("tmr", "redo", slug, "-m", "once more", code=1).err
    assert "is not there any more" in gone and "tmr retry" in gone
