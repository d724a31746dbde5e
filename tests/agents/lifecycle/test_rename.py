"""Tests `mngr rename`."""

from __future__ import annotations

import json

import pytest

from tests.conftest import MngrProgram, run_git

RUN = ("--", "sleep", "1000")


def test_rename_changes_only_the_name(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--env", "A=$x 'y'", *RUN)
    before = mngr.get_agent("foo")
    assert mngr("rename", "foo", "bar").out == "foo is now bar\n"
    after = mngr.get_agent("bar")
    assert {**after, "name": "foo", "activity_at": before["activity_at"]} == before
    assert mngr.run_tmux("list-sessions", "-F", "#{session_name}") == "bar\n"
    assert [p.name for p in (mngr.home / "names").iterdir()] == ["bar"]
    assert (
        mngr("exec", "bar", "--", "sh", "-c", 'echo "$MNGR_AGENT_NAME $A $MNGR_BRANCH"').out == "bar $x 'y' mngr/foo\n"
    )
    assert run_git(mngr.get_work_dir("bar"), "symbolic-ref", "--short", "HEAD") == "mngr/foo"
    assert "there is no agent 'foo'" in mngr("stop", "foo", code=1).err
    mngr("stop", "bar")
    mngr("start", "bar")
    assert mngr.get_agent("bar")["state"] == "RUNNING"


def test_rename_frees_the_old_name(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr("rename", "foo", "bar")
    mngr("create", "foo", "--branch", ":other", *RUN)
    assert mngr.get_work_dir("foo") != mngr.get_work_dir("bar")
    assert sorted(a["name"] for a in mngr.list_agents()) == ["bar", "foo"]


@pytest.mark.parametrize(
    ("new", "code", "said"),
    [
        ("bar", 1, "already an agent called 'bar'"),
        ("Bad Name", 2, "for example 'bad-name'"),
        ("a-0123456789ab", 2, "looks like"),
    ],
)
def test_rename_rejects_taken_and_invalid_names(mngr: MngrProgram, new: str, code: int, said: str) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "bar", *RUN)
    before = sorted((a["id"], a["name"]) for a in mngr.list_agents())
    result = mngr("rename", "foo", new, code=code)
    assert said in result.err and "Hint:" in result.err
    assert sorted((a["id"], a["name"]) for a in mngr.list_agents()) == before
    assert mngr("rename", "foo", "foo").out == "foo is now foo\n"
    assert "there is no agent" in mngr("rename", "nobody", "x", code=1).err


def test_an_agent_that_is_being_created_cannot_be_renamed(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    path = mngr.get_agent_dir("foo") / "agent.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "phase": "creating"}))
    assert "another command is creating or destroying foo" in mngr("rename", "foo", "bar", code=1).err
