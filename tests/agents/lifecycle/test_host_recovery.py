"""Tests the recovery of a host that is gone, with a provider that keeps no backups."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mngr.testkit.contract.mngr_program import commit_file
from tests.conftest import MngrProgram, wait_for
from tests.providers.shared.test_on_demand import RUN, lose, machines, root

pytestmark = pytest.mark.hosts

__all__ = ["root"]
AUTHOR = ("-c", "user.name=Agent", "-c", "user.email=agent@example.invalid")


def test_start_recreates_a_lost_host_and_its_agents_at_their_base(mngr: MngrProgram, root: Path) -> None:
    created = mngr.run_json("create", "foo@two.toy", "player", "-m", "hello")["agents"][0]
    mngr("create", "bar@two.toy", "--label", "team=red", *RUN)
    mngr("exec", "foo", "--", "git", *AUTHOR, "commit", "--allow-empty", "-q", "-m", "work")
    mngr("list")
    lose(next(root.iterdir()))
    stderr = mngr("start", "foo").err
    assert (
        "the host two is gone: its directory was removed; foo is restored at its base commit, because there is no backup"
        in stderr
    )
    assert "its files and its conversation are lost" in stderr and "bar is restored at its base" in stderr
    wait_for(lambda: mngr.get_agent("foo")["state"] == "WAITING")
    states = {agent["name"]: (agent["state"], agent["host_state"]) for agent in mngr.list_agents()}
    assert states == {"foo": ("WAITING", "RUNNING"), "bar": ("STOPPED", "RUNNING")} and machines(root) == {"two": True}
    kept_fields = ("id", "branch", "base", "host", "kind")
    assert {key: mngr.get_agent("foo")[key] for key in kept_fields} == {key: created[key] for key in kept_fields}
    assert mngr.get_agent("bar")["labels"] == {"team": "red"}
    assert mngr("exec", "foo", "--", "git", "rev-parse", "HEAD", "mngr/foo").out.split() == [created["base"]] * 2
    mngr("message", "foo", "-m", "again", "--wait")
    assert mngr.run_json("undestroy", "--list")["trash"] == mngr.run_json("gc")["results"] == []


def test_a_lost_host_can_be_started_and_used_again(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@two.toy", *RUN)
    lose(next(root.iterdir()))
    mngr("create", "bar@two.toy", *RUN)
    assert {agent["name"]: agent["state"] for agent in mngr.list_agents()} == {
        "foo": "STOPPED",
        "bar": "RUNNING",
    }
    lose(next(root.iterdir()))
    assert mngr("start", "@two.toy").out == "started @two.toy\n"
    assert {agent["state"] for agent in mngr.list_agents()} == {"STOPPED"}


def test_an_agent_whose_project_is_gone_stays_in_the_trash(mngr: MngrProgram, root: Path, tmp_path: Path) -> None:
    project = tmp_path / "other"
    shutil.copytree(mngr.repo, project)
    commit_file(project, "more.txt")
    mngr("create", "foo@two.toy", "--from", str(project), *RUN)
    mngr("create", "bar@two.toy", *RUN)
    shutil.rmtree(project)
    lose(next(root.iterdir()))
    assert "mngr could not restore foo" in mngr("start", "@two.toy").err
    assert [agent["name"] for agent in mngr.list_agents()] == ["bar"]
    assert [trashed["name"] for trashed in mngr.run_json("undestroy", "--list")["trash"]] == ["foo"]
