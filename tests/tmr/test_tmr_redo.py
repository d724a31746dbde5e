"""`mngr tmr redo`: the author of a change revises it, and the branch is built again."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from mngr.mapreduce.journal.journal_file import read_journal
from mngr.mapreduce.journal.journal_rows import AgainRow
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.journal.run_state import TaskState
from mngr.mapreduce.run_dir import RunDir
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


def read_task(project: MngrProgram, slug: str) -> TaskState:
    return replay_rows(read_journal(RunDir(str(project.repo), "r").journal)).tasks[slug]


def read_integrated_file(project: MngrProgram) -> str:
    return run_git(project.repo, "show", "mngr/r/integrated:calc.py")


def test_redo_replaces_the_change_and_a_failed_redo_keeps_it(
    project: MngrProgram,
) -> None:
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    tmr.add_tests(project, one=(1, 1, 2))
    head = run_git(project.repo, "rev-parse", "HEAD")
    (task,) = play(project, {"*": [SPENT, *FIXED, "wait", SPENT, "wait", *TURNED, "wait", {"exit": 1}]})["tasks"]
    slug, agent = task["slug"], task["agent"]
    (change,) = project.run_json("tmr", "changes", "r")["changes"]
    assert "needs -m" in project("tmr", "redo", change["id"], code=2).err
    assert "this run has no change, task or commit" in project("tmr", "redo", "ffffff0", "-m", "x", code=1).err
    redo = project("tmr", "redo", change["id"][:4], "-m", "the other way round", "--format", "json", timeout=60)
    assert redo.parse_json()["verdict"] == "green" and f"mngr sends your message for {slug} to {agent}" in redo.err
    assert "b + a" in read_integrated_file(project)
    assert run_git(project.repo, "rev-parse", "HEAD") == head and not run_git(project.repo, "status", "--porcelain")
    revised = read_task(project, slug)
    assert (revised.agent, revised.outcome, revised.claim["summary"]) == (agent, "fixed", "as you like it")
    assert revised.check is not None and (revised.check["verdict"], revised.check["commit"]) == (
        "confirmed",
        revised.commit,
    )
    assert revised.reminders == 1, "the result of before is no answer"
    assert {kind: usage.cost_usd for kind, usage in revised.usage_by_purpose.items()} == {"work": 0.5, "redo": 0.5}
    rows = project.run_json("transcript", agent)["transcript"]
    messages = [row["text"] for row in rows if row["role"] == "user"]
    assert len(messages) == 3 and "the other way round" in messages[1], "in the same conversation"

    command = [str(BIN_DIR / "mngr"), "tmr", "redo", slug, "-m", "once more"]
    process = subprocess.Popen(command, cwd=project.repo, env=project.env)
    journal = RunDir(str(project.repo), "r").journal
    wait_for(lambda: sum(isinstance(row, AgainRow) for row in read_journal(journal)) == 2)
    process.kill()
    process.wait()
    failed = project("tmr", "resume", "r", code=4, timeout=60)
    assert "the earlier result stays" in failed.err and "b + a" in read_integrated_file(project)
    restored = read_task(project, slug)
    assert (restored.commit, restored.check, restored.outcome) == (revised.commit, revised.check, "fixed")
    project("destroy", agent, "--force")
    stderr = project("tmr", "redo", slug, "-m", "once more", code=1).err
    assert "no longer exists" in stderr and "tmr retry" in stderr
