"""Tests of `git fetch mngr::NAME`, which lets git reach any agent."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.hosts.sshd import Farm
from tests.support.repos import commit_file

RUN = ("--", "sleep", "1000")


def run_failing_git(mngr: MngrProgram, *words: str) -> str:
    result = subprocess.run(["git", "-C", str(mngr.repo), *words], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    return result.stderr


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_git_fetches_from_clones_and_pushes_to_an_agent(mngr: MngrProgram, mode: str) -> None:
    mngr("create", "foo", "--transfer", mode, *RUN)
    commit = commit_file(mngr.get_work_dir("foo"))
    for address in ("mngr::foo", "mngr://foo", f"mngr::{mngr.get_agent('foo')['id']}"):
        run_git(mngr.repo, "fetch", "-q", address, "+mngr/foo:refs/fetched")
        assert run_git(mngr.repo, "rev-parse", "refs/fetched") == commit
        run_git(mngr.repo, "update-ref", "-d", "refs/fetched")
    run_git(mngr.repo, "clone", "-q", "-b", "mngr/foo", "mngr::foo", "../cloned")
    assert run_git(mngr.repo.parent / "cloned", "rev-parse", "HEAD") == commit
    run_git(mngr.repo, "push", "-q", "mngr::foo", "main:refs/heads/sent")
    assert run_git(mngr.get_work_dir("foo"), "rev-parse", "sent") == run_git(mngr.repo, "rev-parse", "main")
    assert "checked out" in run_failing_git(mngr, "push", "-q", "mngr::foo", "main:mngr/foo", "--force")


def test_an_agent_can_be_added_as_a_git_remote(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    run_git(mngr.repo, "remote", "add", "foo", "mngr::foo")
    commit = commit_file(mngr.get_work_dir("foo"))
    run_git(mngr.repo, "fetch", "-q", "foo")
    assert run_git(mngr.repo, "rev-parse", "foo/mngr/foo") == commit


def test_an_unreachable_agent_fails_with_a_hint_and_no_traceback(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", *RUN)
    for address, message in (
        ("mngr::nobody", "there is no agent 'nobody'"),
        ("mngr::foo", "has no git repository"),
        ("mngr::", "names neither an agent nor a host"),
    ):
        stderr = run_failing_git(mngr, "fetch", address)
        assert f"Error: {message}" in stderr or message in stderr
        assert "Hint:" in stderr and "Traceback" not in stderr


def test_git_reaches_an_agent_on_an_ssh_host_by_its_address(
    mngr: MngrProgram, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    mngr("create", "foo@h1", *RUN)
    work_dir = farm.home("h1") / ".mngr/work/foo"
    commit = commit_file(work_dir)
    for address in ("foo", "foo@h1", "foo@h1.ssh", mngr.get_agent("foo")["id"]):
        run_git(mngr.repo, "fetch", "-q", f"mngr::{address}", "+mngr/foo:refs/fetched")
        assert run_git(mngr.repo, "rev-parse", "refs/fetched") == commit
        run_git(mngr.repo, "update-ref", "-d", "refs/fetched")
    run_git(mngr.repo, "clone", "-q", "-b", "mngr/foo", "mngr::foo@h1", "../cloned")
    run_git(mngr.repo, "push", "-q", "mngr::foo@h1", "main:refs/heads/sent")
    assert run_git(work_dir, "rev-parse", "sent") == run_git(mngr.repo, "rev-parse", "main")
    farm.cut("h1")
    stderr = run_failing_git(mngr, "fetch", "mngr::foo")
    assert "Error: h1" in stderr and "there is no agent" not in stderr and "Traceback" not in stderr
    assert "there is no agent" in run_failing_git(mngr, "fetch", "mngr::nobody@h2")
