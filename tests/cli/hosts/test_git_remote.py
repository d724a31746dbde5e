"""`git fetch mngr::NAME`: git itself, to any agent."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.hosts.sshd import Farm
from tests.support.repos import commit_file

RUN = ("--", "sleep", "1000")


def failing(mngr: MngrProgram, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(mngr.repo), *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_git_fetches_clones_and_pushes(mngr: MngrProgram, mode: str) -> None:
    mngr("create", "foo", "--transfer", mode, *RUN)
    done = commit_file(mngr.get_work_dir("foo"))
    for address in ("mngr::foo", "mngr://foo", f"mngr::{mngr.get_agent('foo')['id']}"):
        run_git(mngr.repo, "fetch", "-q", address, "+mngr/foo:refs/fetched")
        assert run_git(mngr.repo, "rev-parse", "refs/fetched") == done
        run_git(mngr.repo, "update-ref", "-d", "refs/fetched")
    run_git(mngr.repo, "clone", "-q", "-b", "mngr/foo", "mngr::foo", "../cloned")
    assert run_git(mngr.repo.parent / "cloned", "rev-parse", "HEAD") == done
    run_git(mngr.repo, "push", "-q", "mngr::foo", "main:refs/heads/sent")
    assert run_git(mngr.get_work_dir("foo"), "rev-parse", "sent") == run_git(mngr.repo, "rev-parse", "main")
    assert "checked out" in failing(mngr, "push", "-q", "mngr::foo", "main:mngr/foo", "--force")


def test_a_remote_can_be_kept(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    run_git(mngr.repo, "remote", "add", "foo", "mngr::foo")
    done = commit_file(mngr.get_work_dir("foo"))
    run_git(mngr.repo, "fetch", "-q", "foo")
    assert run_git(mngr.repo, "rev-parse", "foo/mngr/foo") == done


def test_what_cannot_be_reached_is_said_without_a_traceback(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", *RUN)
    for address, said in (
        ("mngr::nobody", "there is no agent 'nobody'"),
        ("mngr::foo", "has no repository"),
        ("mngr::", "names no agent"),
    ):
        text = failing(mngr, "fetch", address)
        assert f"Error: {said}" in text or said in text
        assert "Hint:" in text and "Traceback" not in text


def test_an_agent_on_a_host_is_reached_by_its_address(
    mngr: MngrProgram, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    mngr("create", "foo@h1", *RUN)
    work = farm.home("h1") / ".mngr/work/foo"
    done = commit_file(work)
    for address in ("foo", "foo@h1", "foo@h1.ssh", mngr.get_agent("foo")["id"]):
        run_git(mngr.repo, "fetch", "-q", f"mngr::{address}", "+mngr/foo:refs/fetched")
        assert run_git(mngr.repo, "rev-parse", "refs/fetched") == done
        run_git(mngr.repo, "update-ref", "-d", "refs/fetched")
    run_git(mngr.repo, "clone", "-q", "-b", "mngr/foo", "mngr::foo@h1", "../cloned")
    run_git(mngr.repo, "push", "-q", "mngr::foo@h1", "main:refs/heads/sent")
    assert run_git(work, "rev-parse", "sent") == run_git(mngr.repo, "rev-parse", "main")
    farm.cut("h1")
    text = failing(mngr, "fetch", "mngr::foo")
    assert "Error: h1" in text and "there is no agent" not in text and "Traceback" not in text
    assert "there is no agent" in failing(mngr, "fetch", "mngr::nobody@h2")
