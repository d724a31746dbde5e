"""`mngr clone` from outside."""

from __future__ import annotations

import json

from tests.agents.archive.test_destroy import make
from tests.conftest import Mngr, git, wait_for


def test_a_clone_has_the_same_files_and_a_branch_of_its_own(mngr: Mngr) -> None:
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
    work = mngr.work("foo")
    wait_for(lambda: (work / "said").exists() and (work / "said").read_text())
    (work / "a").write_text("a")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "mine")
    (work / "b").write_text("uncommitted")
    agent = mngr.json("clone", "foo", "bar")["agents"][0]
    assert (agent["name"], agent["state"], agent["branch"], agent["labels"]) == (
        "bar",
        "RUNNING",
        "mngr/bar",
        {"team": "red"},
    )
    there = mngr.work("bar")
    assert there != work and (there / "b").read_text() == "uncommitted"
    assert git(there, "rev-parse", "HEAD") == git(work, "rev-parse", "HEAD")
    wait_for(lambda: (there / "said").read_text() == "blue\n" * 2)
    env = (mngr.dir("bar") / "env").read_text()
    assert (
        f"MNGR_AGENT_ID={agent['id']}\n" in env
        and "MNGR_AGENT_NAME=bar\n" in env
        and env.count("MNGR_AGENT_ID=") == 1
    )
    git(there, "commit", "-q", "--allow-empty", "-m", "its own way")
    assert git(mngr.repo, "rev-list", "--count", "mngr/foo..mngr/bar") == "1"
    assert list((mngr.home / "snapshots").iterdir()) == []


def test_without_a_name_it_gets_the_next_number(mngr: Mngr) -> None:
    make(mngr)
    assert mngr("clone", "foo", "--no-start").out == "foo-2 is STOPPED on mngr/foo-2\n"
    assert mngr("clone", "foo", "--no-start").out == "foo-3 is STOPPED on mngr/foo-3\n"


def test_the_conversation_goes_along(mngr: Mngr) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "hello")
    mngr("clone", "foo", "bar", "--no-start")
    assert "hello" in mngr("transcript", "bar").out
    mngr("start", "bar")
    mngr("message", "bar", "-m", "only for bar")
    assert "only for bar" not in mngr("transcript", "foo").out


def test_a_mirror_and_a_copy_can_be_cloned(mngr: Mngr) -> None:
    for mode in ("mirror", "copy"):
        work = make(mngr, mode, "--transfer", mode)
        (work / "a").write_text("a")
        mngr("clone", mode, f"{mode}-b", "--no-start")
        assert (mngr.work(f"{mode}-b") / "a").read_text() == "a"
    assert git(mngr.work("mirror-b"), "symbolic-ref", "--short", "HEAD") == "mngr/mirror-b"
    assert git(mngr.work("mirror-b"), "status", "--porcelain") == "?? a"


def test_set_up_makes_the_ignored_files_anew(mngr: Mngr) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr" / "settings.toml").write_text(
        '[project]\nsetup = "mkdir -p build && pwd >build/where"\n'
    )
    git(mngr.repo, "add", "-A")
    git(mngr.repo, "commit", "-q", "-m", "settings")
    work = make(mngr)
    assert (work / "build" / "where").read_text().strip() == str(work)
    mngr("clone", "foo", "bar", "--no-start")
    there = mngr.work("bar")
    assert (there / "build" / "where").read_text().strip() == str(there)


def test_an_unfinished_rebase_stays_with_the_original(mngr: Mngr) -> None:
    work = make(mngr)
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    git(work, "-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "--keep-empty", "HEAD~1")
    assert "rebase in progress" in git(work, "status")
    mngr("clone", "foo", "bar", "--no-start")
    assert git(mngr.work("bar"), "symbolic-ref", "--short", "HEAD") == "mngr/bar"
    assert "Last command done" not in git(mngr.work("bar"), "status")


def test_names_that_cannot_be(mngr: Mngr) -> None:
    make(mngr)
    assert "there is already an agent called 'foo'" in mngr("clone", "foo", "foo", code=1).err
    git(mngr.repo, "branch", "mngr/bar")
    assert "there is already a branch 'mngr/bar'" in mngr("clone", "foo", "bar", code=1).err
    mngr("clone", "foo", "Not Good", code=2)
    mngr("clone", "nobody", code=1)
    assert [agent["name"] for agent in mngr.agents()] == ["foo"]
    assert list((mngr.home / "snapshots").iterdir()) == []
    events = [
        json.loads(line)["type"] for line in (mngr.dir("foo") / "events.jsonl").read_text().splitlines()
    ]
    assert "clone" not in events
