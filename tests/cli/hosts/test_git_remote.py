"""`git fetch mngr::NAME`: git itself, to any agent."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import Mngr, git
from tests.support.hosts.sshd import Farm
from tests.support.repos import commit

RUN = ("--", "sleep", "1000")


def failing(mngr: Mngr, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(mngr.repo), *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_git_fetches_clones_and_pushes(mngr: Mngr, mode: str) -> None:
    mngr("create", "foo", "--transfer", mode, *RUN)
    done = commit(mngr.work("foo"))
    for address in ("mngr::foo", "mngr://foo", f"mngr::{mngr.agent('foo')['id']}"):
        git(mngr.repo, "fetch", "-q", address, "+mngr/foo:refs/fetched")
        assert git(mngr.repo, "rev-parse", "refs/fetched") == done
        git(mngr.repo, "update-ref", "-d", "refs/fetched")
    git(mngr.repo, "clone", "-q", "-b", "mngr/foo", "mngr::foo", "../cloned")
    assert git(mngr.repo.parent / "cloned", "rev-parse", "HEAD") == done
    git(mngr.repo, "push", "-q", "mngr::foo", "main:refs/heads/sent")
    assert git(mngr.work("foo"), "rev-parse", "sent") == git(mngr.repo, "rev-parse", "main")
    assert "checked out" in failing(mngr, "push", "-q", "mngr::foo", "main:mngr/foo", "--force")


def test_a_remote_can_be_kept(mngr: Mngr) -> None:
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    git(mngr.repo, "remote", "add", "foo", "mngr::foo")
    done = commit(mngr.work("foo"))
    git(mngr.repo, "fetch", "-q", "foo")
    assert git(mngr.repo, "rev-parse", "foo/mngr/foo") == done


def test_what_cannot_be_reached_is_said_without_a_traceback(mngr: Mngr) -> None:
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
    mngr: Mngr, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    mngr("create", "foo@h1", *RUN)
    work = farm.home("h1") / ".mngr/work/foo"
    done = commit(work)
    for address in ("foo", "foo@h1", "foo@h1.ssh", mngr.agent("foo")["id"]):
        git(mngr.repo, "fetch", "-q", f"mngr::{address}", "+mngr/foo:refs/fetched")
        assert git(mngr.repo, "rev-parse", "refs/fetched") == done
        git(mngr.repo, "update-ref", "-d", "refs/fetched")
    git(mngr.repo, "clone", "-q", "-b", "mngr/foo", "mngr::foo@h1", "../cloned")
    git(mngr.repo, "push", "-q", "mngr::foo@h1", "main:refs/heads/sent")
    assert git(work, "rev-parse", "sent") == git(mngr.repo, "rev-parse", "main")
    farm.cut("h1")
    text = failing(mngr, "fetch", "mngr::foo")
    assert "Error: h1" in text and "there is no agent" not in text and "Traceback" not in text
    assert "there is no agent" in failing(mngr, "fetch", "mngr::nobody@h2")
