"""Tests of `mngr undestroy`, run as a program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.agents.archive.test_destroy import make
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for


def test_undestroy_restores_everything_and_the_agent_can_start_again(mngr: MngrProgram) -> None:
    mngr(
        "create",
        "foo",
        "--label",
        "team=red",
        "--env",
        "GREETING=it's $HOME",
        "--",
        "sh",
        "-c",
        "echo $GREETING >>said; sleep 1000",
    )
    work = mngr.get_work_dir("foo")
    wait_for(lambda: (work / "said").exists() and (work / "said").read_text())
    before = mngr.get_agent("foo")
    (mngr.get_agent_dir("foo") / "outputs" / "result.json").write_text("{}")
    mngr("destroy", "--force", "foo")
    result = mngr("undestroy", "foo")
    assert result.out == "restored foo, which is STOPPED; start it: mngr start foo\n"
    after = mngr.get_agent("foo")
    assert after["state"] == "STOPPED"
    same = ("id", "name", "branch", "base", "work_dir", "created_at", "labels", "project")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert (mngr.get_agent_dir("foo") / "outputs" / "result.json").read_text() == "{}"
    kinds = [json.loads(line)["type"] for line in (mngr.get_agent_dir("foo") / "events.jsonl").read_text().splitlines()]
    assert kinds[0] == "created" and kinds[-2:] == ["destroyed", "undestroy"]
    assert list((mngr.home / "trash").iterdir()) == []
    mngr("start", "foo")
    wait_for(lambda: (work / "said").read_text() == "it's $HOME\n" * 2)


def test_undestroy_can_list_the_trash(mngr: MngrProgram) -> None:
    assert "the trash is empty" in mngr("undestroy", "--list").out
    work = make(mngr)
    (work / "a").write_text("a")
    mngr("destroy", "foo")
    assert "foo" in mngr("undestroy", "--list").out
    trashed = mngr.run_json("undestroy", "--list")["trash"][0]
    assert (trashed["name"], trashed["branch"], trashed["dirty"], trashed["problem"]) == (
        "foo",
        "mngr/foo",
        True,
        None,
    )
    assert trashed["expires_at"][:4] >= trashed["destroyed_at"][:4]


def test_trashed_agents_with_the_same_name_are_restored_by_id(mngr: MngrProgram) -> None:
    ids = []
    for number in range(2):
        work = make(mngr)
        (work / "which").write_text(str(number))
        ids.append(mngr.get_agent("foo")["id"])
        mngr("destroy", "foo")
    result = mngr("undestroy", "foo", code=1)
    assert all(agent_id in result.err for agent_id in ids)
    mngr("undestroy", ids[0])
    assert (mngr.get_work_dir("foo") / "which").read_text() == "0"
    result = mngr("undestroy", ids[1], code=1)
    assert "another agent is called 'foo' now" in result.err and "--as" in result.err
    result = mngr("undestroy", ids[1], "--as", "bar")
    assert "mngr/foo is checked out at" in result.err and mngr.get_agent("bar")["branch"] == "mngr/bar"
    assert (mngr.get_work_dir("bar") / "which").read_text() == "1"
    assert mngr.get_agent("bar")["id"] == ids[1]


def test_undestroy_uses_the_kept_branch_or_a_new_one_if_that_has_moved(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "a").write_text("a")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    tip = run_git(work, "rev-parse", "HEAD")
    mngr("destroy", "foo")
    mngr("undestroy", "foo")
    assert run_git(work, "symbolic-ref", "--short", "HEAD") == "mngr/foo" and run_git(work, "rev-parse", "HEAD") == tip
    mngr("destroy", "foo")
    run_git(mngr.repo, "checkout", "-q", "mngr/foo")
    result = mngr("undestroy", "foo", code=1)
    assert f"the branch 'mngr/foo' is checked out at {mngr.repo}" in result.err
    (mngr.repo / "b").write_text("b")
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "moved on")
    moved = run_git(mngr.repo, "rev-parse", "HEAD")
    run_git(mngr.repo, "checkout", "-q", "main")
    result = mngr("undestroy", "foo")
    assert "has new commits" in result.err
    branch = mngr.get_agent("foo")["branch"]
    assert branch.startswith("mngr/foo-") and run_git(work, "symbolic-ref", "--short", "HEAD") == branch
    assert run_git(work, "rev-parse", "HEAD") == tip and run_git(mngr.repo, "rev-parse", "mngr/foo") == moved


def test_undestroy_uses_another_work_dir_if_the_old_path_is_taken(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "a").write_text("a")
    mngr("destroy", "foo")
    work.mkdir()
    (work / "mine").write_text("m")
    mngr("undestroy", "foo")
    assert mngr.get_work_dir("foo") != work
    assert (mngr.get_work_dir("foo") / "a").read_text() == "a" and (work / "mine").read_text() == "m"
    env = (mngr.get_agent_dir("foo") / "env").read_text()
    assert f"MNGR_WORK_DIR={mngr.get_work_dir('foo')}\n" in env and f"MNGR_WORK_DIR={work}\n" not in env


def test_undestroy_rejects_unknown_names_and_wrong_usage(mngr: MngrProgram) -> None:
    make(mngr)
    mngr("destroy", "foo")
    assert "did you mean 'foo'?" in mngr("undestroy", "fooo", code=1).err
    mngr("undestroy", code=2)
    mngr("undestroy", "foo", "bar", "--as", "x", code=2)
    mngr("undestroy", "foo", "--as", "Not A Name", code=2)
    assert mngr.list_agents() == []


def test_undestroy_reports_and_keeps_a_damaged_trash_entry(mngr: MngrProgram) -> None:
    make(mngr)
    mngr("destroy", "foo")
    trash_dir: Path = next((mngr.home / "trash").iterdir())
    (trash_dir / "meta.json").write_text("{")
    result = mngr("undestroy", trash_dir.name, code=1)
    assert "cannot be restored" in result.err and str(trash_dir) in result.err
    assert trash_dir.is_dir()


def test_parallel_undestroys_of_one_agent_lose_nothing(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "draft.txt").write_text("mine")
    mngr("destroy", "--force", "foo")
    argv = [str(BIN_DIR / "mngr"), "undestroy", "foo"]
    processes = [subprocess.Popen(argv, cwd=mngr.repo, env=mngr.env, stderr=subprocess.PIPE) for _ in range(3)]
    codes = sorted(process.wait() for process in processes)
    for process in processes:
        process.communicate()
    assert codes == [0, 1, 1]
    assert (mngr.get_work_dir("foo") / "draft.txt").read_text() == "mine"
