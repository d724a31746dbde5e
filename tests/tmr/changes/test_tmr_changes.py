"""Tests `mngr tmr changes`, `mngr tmr memory`, and the overlapping edits in `mngr tmr status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.tmr.changes.integration_record import BranchCommit, ExcludedChange, Integration, save_integration
from mngr.tmr.changes.rejection_reasons import RejectionFile, make_rejection
from tests.conftest import MngrProgram
from tests.support.own_runs import adopt_run
from tests.tmr.field import Field, app, fix, note


@pytest.fixture
def field(mngr: MngrProgram) -> Field:
    """A run of five tasks: two make the same fix, one conflicts with it, one is refuted, one is still running."""
    field = Field(mngr.repo)
    adopt_run(mngr.home, field.run)
    evil = {"tests/test_app.py": "def test_app():\n    assert 1  # \x1b]0;owned\x07\n"}
    for name in ("ann", "bob"):
        field.claim(name, ("[FIX_IMPL] One", fix(1)))
    field.claim("eve", ("[FIX_IMPL] Other\x1b[31m\n\nWhy\x1b[0m not.", fix(1, "return 7")))
    field.claim("joe", ("[FIX_TEST] Say more", evil), guard=[note("tests/test_app.py")])
    field.claim("lie", ("[FIX_TEST] Less", {"tests/helper.py": "ONE = 1\n"}), verdict="refuted")
    field.write(going="sue")
    return field


def test_changes_lists_all_changes_of_a_run_with_conflicts_and_integration(mngr: MngrProgram, field: Field) -> None:
    listing = mngr.run_json("tmr", "changes")
    rows = {row["tasks"][0]: row for row in listing["changes"]}
    assert {task: row["tasks"] for task, row in rows.items()} == {
        "joe": ["joe"],
        "ann": ["ann", "bob"],
        "eve": ["eve"],
    }
    assert rows["ann"]["conflicts_with"] == [rows["eve"]["id"]] and rows["joe"]["conflicts_with"] == []
    assert [task["task"] for task in listing["excluded"]] == ["lie", "sue"]
    saved = json.loads(Path(field.run.path, "changes.json").read_text())
    assert [row["id"] for row in saved["changes"]] == [row["id"] for row in listing["changes"]]
    pinned = field.git("for-each-ref", "--format=%(objectname)", "refs/mngr/runs/r/change-*").split("\n")
    assert sorted(pinned) == sorted(row["commit"] for row in listing["changes"])
    lines = mngr("tmr", "changes", "r").out.split("\n")
    command_line = ("mngr", "tmr", "changes", "r", "")
    completions = mngr("completion", "bash", "--index", "4", "--", *command_line).out
    assert [line.strip() for line in completions.splitlines()] == [row["id"] for row in listing["changes"]]
    assert lines[0] == "r: 3 changes so far, 1 task not finished"
    assert lines[1].split() == "ID KIND VERDICT SIZE AGENTS CONFLICTS WITH TITLE TASKS".split()
    assert lines[2].split() == [rows["joe"]["id"], *"test flagged confirmed +1 -1 in 1 file 1 [FIX_TEST] Say more 1: joe".split()]  # fmt: skip
    shared = f"{rows['ann']['id']} fix confirmed +1 -1 in 1 file 2 {rows['eve']['id']} [FIX_IMPL] One 2: ann, bob"
    assert shared.split() in [line.split() for line in lines]
    assert (
        "1 task without a change: it is refuted" in lines
        and "1 task without a change: the task is not finished: working" in lines
    )
    commit = BranchCommit(commit="c" * 40, tree="", changes=[rows["ann"]["id"]], kind="fix", subject="")
    excluded = ExcludedChange(
        change=rows["eve"]["id"], why="conflict", reason="it does not merge", key="", title="", kind="fix", tasks=[]
    )
    save_integration(field.run, Integration(commits=[commit], excluded=[excluded]))
    output = mngr("tmr", "changes", "--format", "{tasks} {integration.in} {integration.commit} {integration.why}").out
    assert set(output.splitlines()) == {'["ann", "bob"] true ' + "c" * 40 + " ", '["eve"] false  conflict', '["joe"]   '}  # fmt: skip


def test_changes_shows_one_change_with_its_diff(mngr: MngrProgram, field: Field) -> None:
    rows = {row["tasks"][0]: row for row in mngr.run_json("tmr", "changes")["changes"]}
    shown = mngr("tmr", "changes", rows["eve"]["id"][:5], "--diff").out
    assert "\x1b" not in shown and "[FIX_IMPL] Other\n\nWhy not.\n" in shown
    assert (
        "  mechanic agent tmr-r-eve for task eve (tests/test_app.py::eve): confirmed, 3/3 runs passed, commit " in shown
    )
    assert "-    return 0\n+    return 7\n" in shown
    joe = mngr("tmr", "changes", "r", rows["joe"]["key"], "--diff").out
    assert "\x1b" not in joe and "?]0;owned?" in joe
    assert "findings:\n  note tests/test_app.py:1: look at it\n" in joe
    assert mngr.run_json("tmr", "changes", "r", rows["ann"]["id"])["made_by"][1]["task"] == "bob"
    error = mngr("tmr", "changes", "zzz", code=1).err
    assert "there is no run 'zzz', and no change of r begins with it" in error
    assert "no change of r begins with 'zzz'" in mngr("tmr", "changes", "r", "zzz", code=1).err
    assert "--diff needs a change" in mngr("tmr", "changes", "--diff", code=2).err


def test_status_lists_tasks_that_edit_the_same_lines(mngr: MngrProgram, field: Field) -> None:
    later_base = str(field.state.tasks["ann"].commit)
    for name in ("mia", "noa"):  # they started with ann's fix, which does not overlap with theirs
        files = {"src/app.py": app(f1="return 1", f20=f"return '{name}'")}
        field.claim(name, ("[FIX_IMPL] Twenty", files), base=later_base)
    field.write()
    assert mngr.run_json("tmr", "status")["converging"] == [
        {"path": "src/app.py", "first": 6, "last": 6, "who": ["ann", "bob", "eve"]},
        {"path": "src/app.py", "first": 82, "last": 82, "who": ["mia", "noa"]},
    ]
    assert mngr("tmr", "status").out.endswith(
        "\n3 tasks changed the same lines, src/app.py:6-6: ann, bob, eve\n2 tasks changed the same lines, src/app.py:82-82: mia, noa\n"
    )


def test_memory_shows_and_forgets_the_reasons_for_rejections(mngr: MngrProgram, field: Field) -> None:
    rejections = RejectionFile(Home(str(mngr.home)), str(mngr.repo))
    rejections.add(make_rejection(change, "prices are cents", "r") for change in field.changes())
    keys = {row.title: key for key, row in rejections.read().items()}
    lines = mngr("tmr", "memory", "reasons").out.split("\n")
    assert lines[0].split() == ["CHANGE", "RUN", "REASON", "TITLE"]
    assert [keys["[FIX_TEST] Say more"][:6], *"r prices are cents [FIX_TEST] Say more".split()] in [
        line.split() for line in lines
    ]
    (row,) = mngr.run_json("tmr", "memory", "reasons", "tests/test_app.py::eve")["reasons"]
    assert row["paths"] == ["src/app.py"] and row["change"] == keys["[FIX_IMPL] Other"]
    assert mngr("tmr", "memory", "forget", row["change"][:6]).out == "forgot 1 entry\n"
    assert row["change"] not in rejections.read()
    assert "no stored result or reason for 012345" in mngr("tmr", "memory", "forget", "012345", code=1).err
    assert mngr("tmr", "memory", "forget").out == "forgot 2 entries\n" and rejections.read() == {}
    assert "did you mean 'reasons'?" in mngr("tmr", "memory", "reason", code=2).err
