"""Tests of `mngr clone`, run as a program."""

from __future__ import annotations

import json

from tests.agents.archive.test_destroy import make
from tests.conftest import MngrProgram, run_git, wait_for


def test_a_clone_has_the_same_files_and_its_own_branch(mngr: MngrProgram) -> None:
    mngr(
        "create",
        "foo",
        "--env",
        "COLOUR=blue",
        "--label",
        "team=red",
        "--",
        "sh",
        "-c",
        "echo $COLOUR >>said; sleep 1000",
    )
    work = mngr.get_work_dir("foo")
    wait_for(lambda: (work / "said").exists() and (work / "said").read_text())
    (work / "a").write_text("a")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    (work / "b").write_text("uncommitted")
    agent = mngr.run_json("clone", "foo", "bar")["agents"][0]
    assert (agent["name"], agent["state"], agent["branch"], agent["labels"]) == (
        "bar",
        "RUNNING",
        "mngr/bar",
        {"team": "red"},
    )
    clone_dir = mngr.get_work_dir("bar")
    assert clone_dir != work and (clone_dir / "b").read_text() == "uncommitted"
    assert run_git(clone_dir, "rev-parse", "HEAD") == run_git(work, "rev-parse", "HEAD")
    wait_for(lambda: (clone_dir / "said").read_text() == "blue\n" * 2)
    env = (mngr.get_agent_dir("bar") / "env").read_text()
    assert (
        f"MNGR_AGENT_ID={agent['id']}\n" in env and "MNGR_AGENT_NAME=bar\n" in env and env.count("MNGR_AGENT_ID=") == 1
    )
    run_git(clone_dir, "commit", "-q", "--allow-empty", "-m", "its own way")
    assert run_git(mngr.repo, "rev-list", "--count", "mngr/foo..mngr/bar") == "1"
    assert list((mngr.home / "snapshots").iterdir()) == []


def test_a_clone_without_a_name_gets_the_name_with_the_next_number(mngr: MngrProgram) -> None:
    make(mngr)
    assert mngr("clone", "foo", "--no-start").out == "foo-2 is STOPPED on mngr/foo-2\n"
    assert mngr("clone", "foo", "--no-start").out == "foo-3 is STOPPED on mngr/foo-3\n"


def test_a_clone_has_its_own_copy_of_the_conversation(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "hello")
    mngr("clone", "foo", "bar", "--no-start")
    assert "hello" in mngr("transcript", "bar").out
    mngr("start", "bar")
    mngr("message", "bar", "-m", "only for bar")
    assert "only for bar" not in mngr("transcript", "foo").out


def test_a_mirror_and_a_copy_can_be_cloned(mngr: MngrProgram) -> None:
    for mode in ("mirror", "copy"):
        work = make(mngr, mode, "--transfer", mode)
        (work / "a").write_text("a")
        mngr("clone", mode, f"{mode}-b", "--no-start")
        assert (mngr.get_work_dir(f"{mode}-b") / "a").read_text() == "a"
    assert run_git(mngr.get_work_dir("mirror-b"), "symbolic-ref", "--short", "HEAD") == "mngr/mirror-b"
    assert run_git(mngr.get_work_dir("mirror-b"), "status", "--porcelain") == "?? a"


def test_set_up_creates_the_ignored_files_of_a_clone(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr" / "settings.toml").write_text('[project]\nsetup = "mkdir -p build && pwd >build/where"\n')
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "settings")
    mngr("trust", "--yes")
    work = make(mngr)
    assert (work / "build" / "where").read_text().strip() == str(work)
    mngr("clone", "foo", "bar", "--no-start")
    clone_dir = mngr.get_work_dir("bar")
    assert (clone_dir / "build" / "where").read_text().strip() == str(clone_dir)


def test_a_clone_does_not_inherit_an_unfinished_rebase(mngr: MngrProgram) -> None:
    work = make(mngr)
    run_git(work, "commit", "-q", "--allow-empty", "-m", "one")
    run_git(work, "-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "--keep-empty", "HEAD~1")
    assert "rebase in progress" in run_git(work, "status")
    mngr("clone", "foo", "bar", "--no-start")
    assert run_git(mngr.get_work_dir("bar"), "symbolic-ref", "--short", "HEAD") == "mngr/bar"
    assert "Last command done" not in run_git(mngr.get_work_dir("bar"), "status")


def test_a_clone_with_a_taken_or_invalid_name_is_rejected(mngr: MngrProgram) -> None:
    make(mngr)
    assert "there is already an agent called 'foo'" in mngr("clone", "foo", "foo", code=1).err
    run_git(mngr.repo, "branch", "mngr/bar")
    assert "there is already a branch 'mngr/bar'" in mngr("clone", "foo", "bar", code=1).err
    mngr("clone", "foo", "Not Good", code=2)
    mngr("clone", "nobody", code=1)
    assert [agent["name"] for agent in mngr.list_agents()] == ["foo"]
    assert list((mngr.home / "snapshots").iterdir()) == []
    events = [
        json.loads(line)["type"] for line in (mngr.get_agent_dir("foo") / "events.jsonl").read_text().splitlines()
    ]
    assert "clone" not in events
