"""`git fetch mngr::NAME`: git itself, to any agent."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import Mngr, git
from tests.repos import commit

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
