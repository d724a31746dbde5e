"""`mngr create` from outside."""

from __future__ import annotations

from tests.conftest import Mngr, git


def test_a_command_runs_in_its_own_worktree_on_its_own_branch(mngr: Mngr) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent = mngr.agent("foo")
    assert (agent["state"], agent["kind"], agent["branch"]) == ("RUNNING", "command", "mngr/foo")
    assert git(mngr.work("foo"), "rev-parse", "--abbrev-ref", "HEAD") == "mngr/foo"
    assert git(mngr.work("foo"), "status", "--porcelain") == ""
    with open(f"/proc/{agent['pid']}/cmdline", "rb") as file:
        assert file.read() == b"sleep\x001000\x00"


def test_a_command_that_does_not_exist_leaves_nothing(mngr: Mngr) -> None:
    ran = mngr("create", "foo", "--", "no-such-program", code=1)
    assert "no-such-program: command not found" in ran.err
    assert mngr.agents() == []
    assert git(mngr.repo, "worktree", "list").count("\n") == 0
    assert git(mngr.repo, "branch", "--list", "mngr/*") == ""
    assert list((mngr.home / "agents").iterdir()) == [] == list((mngr.home / "names").iterdir())
