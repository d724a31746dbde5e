"""Tests `mngr diff`: it shows all work of an agent since its base, and leaves the agent's index unchanged."""

from __future__ import annotations

import os
import subprocess

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram, run_git
from tests.support.repos import commit_file, status

RUN = ("--", "sleep", "1000")


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_diff_shows_committed_uncommitted_and_new_files(mngr: MngrProgram, mode: str) -> None:
    mngr("create", "foo", "--transfer", mode, *RUN)
    work_dir = mngr.get_work_dir("foo")
    assert mngr("diff", "foo").out == ""
    commit_file(work_dir, "committed.txt")
    (work_dir / "README.md").write_text("changed\n")
    (work_dir / "new.txt").write_text("new\n")
    (work_dir / "src/app.py").unlink()
    (work_dir / "noise.log").write_text("ignored")
    before = status(work_dir)
    assert mngr("diff", "foo", "--name-only").out.split() == [
        "README.md",
        "committed.txt",
        "new.txt",
        "src/app.py",
    ]
    assert status(work_dir) == before
    assert "4 files changed" in mngr("diff", "foo", "--stat").out
    assert mngr("diff", "foo", "--committed", "--name-only").out == "committed.txt\n"
    text = mngr("diff", "foo").out
    assert "+changed\n" in text and "+new\n" in text and "-print('hi')\n" in text
    assert mngr.run_json("diff", "foo")["results"][0]["diff"] == text


def test_the_output_of_diff_can_be_applied(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    work_dir = mngr.get_work_dir("foo")
    (work_dir / "é.txt").write_text("ü\n")
    (work_dir / "latin.txt").write_bytes(b"caf\xe9 \x1b[31m\n")
    commit_file(work_dir)
    argv = [os.path.join(mngr.env["PATH"].split(":")[0], "mngr"), "diff", "foo"]
    raw = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, check=True).stdout
    subprocess.run(["git", "-C", str(mngr.repo), "apply"], input=raw, check=True)
    assert (mngr.repo / "latin.txt").read_bytes() == b"caf\xe9 \x1b[31m\n"
    assert (mngr.repo / "é.txt").read_text() == "ü\n"


def test_diff_without_a_base_or_a_work_dir_fails(mngr: MngrProgram) -> None:
    mngr("create", "copied", "--transfer", "copy", *RUN)
    assert "has no base" in mngr("diff", "copied", code=1).err
    mngr("create", "foo", *RUN)
    run_git(mngr.repo, "worktree", "remove", "--force", str(mngr.get_work_dir("foo")))
    assert "the work dir of foo no longer exists" in mngr("diff", "foo", code=1).err


def test_colours_in_an_agents_files_cannot_hide_lines_on_a_terminal(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    (mngr.get_work_dir("foo") / "new.txt").write_text("seen\n\x1b[8mhidden\x1b[1A\n\x1b[30;40mblack\n")
    env = {**mngr.env, "TERM": "xterm-256color"}
    with PtyTerminal([str(BIN_DIR / "mngr"), "diff", "foo"], mngr.repo, env) as terminal:
        shown = b""
        while data := terminal.read_raw():
            shown += data
    assert b"\x1b[32m+seen\x1b[0m" in shown
    assert b"+?[8mhidden?[1A" in shown and b"+?[30;40mblack" in shown
    assert b"\x1b[8m" not in shown and b"\x1b[30" not in shown
