"""`mngr diff`: everything an agent did since its base, and its own index left alone."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.repos import commit_file, status

RUN = ("--", "sleep", "1000")


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_committed_uncommitted_and_new_files_are_shown(mngr: MngrProgram, mode: str) -> None:
    mngr("create", "foo", "--transfer", mode, *RUN)
    work = mngr.get_work_dir("foo")
    assert mngr("diff", "foo").out == ""
    commit_file(work, "committed.txt")
    (work / "README.md").write_text("changed\n")
    (work / "new.txt").write_text("new\n")
    (work / "src/app.py").unlink()
    (work / "noise.log").write_text("ignored")
    before = status(work)
    assert mngr("diff", "foo", "--name-only").out.split() == [
        "README.md",
        "committed.txt",
        "new.txt",
        "src/app.py",
    ]
    assert status(work) == before
    assert "4 files changed" in mngr("diff", "foo", "--stat").out
    assert mngr("diff", "foo", "--committed", "--name-only").out == "committed.txt\n"
    text = mngr("diff", "foo").out
    assert "+changed\n" in text and "+new\n" in text and "-print('hi')\n" in text
    assert mngr.run_json("diff", "foo")["results"][0]["diff"] == text


def test_what_is_printed_can_be_applied(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    work = mngr.get_work_dir("foo")
    (work / "é.txt").write_text("ü\n")
    (work / "latin.txt").write_bytes(b"caf\xe9 \x1b[31m\n")
    commit_file(work)
    argv = [os.path.join(mngr.env["PATH"].split(":")[0], "mngr"), "diff", "foo"]
    raw = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, check=True).stdout
    subprocess.run(["git", "-C", str(mngr.repo), "apply"], input=raw, check=True)
    assert (mngr.repo / "latin.txt").read_bytes() == b"caf\xe9 \x1b[31m\n"
    assert (mngr.repo / "é.txt").read_text() == "ü\n"


def test_what_has_no_base_or_no_work_dir_is_said(mngr: MngrProgram) -> None:
    mngr("create", "copied", "--transfer", "copy", *RUN)
    assert "has no base" in mngr("diff", "copied", code=1).err
    mngr("create", "foo", *RUN)
    run_git(mngr.repo, "worktree", "remove", "--force", str(mngr.get_work_dir("foo")))
    assert "the work dir of foo is gone" in mngr("diff", "foo", code=1).err
