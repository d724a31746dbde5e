"""The tutorial of mngr runs from top to bottom, and shows every command."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from mngr.base.paths import build_socket_path
from mngr.cli.framework.command_table import COMMANDS
from mngr.tutorial.blocks import read_script
from tests.conftest import MngrProgram, run_git
from tests.support.paths import ROOT

TUTORIAL = ROOT / "tutorial.sh"


def list_command_blocks() -> list[str]:
    """Return the blocks with at least one command."""
    return [block.text for block in read_script(str(TUTORIAL)).blocks if block.commands]


@pytest.mark.full  # the tests that cite its blocks run them, too
def test_the_tutorial_runs_from_top_to_bottom_and_leaves_nothing_behind(mngr: MngrProgram, tmp_path: Path) -> None:
    temp_dir = tmp_path / "tmp"
    temp_dir.mkdir()
    completed = subprocess.run(
        ["sh", "-x", TUTORIAL], cwd=mngr.repo, env={**mngr.env, "TMPDIR": str(temp_dir)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if completed.returncode:
        for link in temp_dir.glob("*/home/tmux.socket"):
            subprocess.run(["tmux", "-S", os.readlink(link), "kill-server"], capture_output=True, check=False)
        pytest.fail(f"exit {completed.returncode}\n{completed.stdout[-2000:]}\n{completed.stderr[-3000:]}")
    (home,) = set(re.findall(r"^\+ export MNGR_HOME=(\S+)$", completed.stderr, re.MULTILINE))
    os.unlink(build_socket_path(home, os.getuid()))  # tmux leaves its socket behind
    assert list(temp_dir.iterdir()) == []
    assert not mngr.home.exists()
    assert run_git(mngr.repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert "a bug in mngr" not in completed.stderr


def test_every_command_is_in_the_tutorial() -> None:
    commands = " ".join(
        line for block in list_command_blocks() for line in block.splitlines() if not line.startswith("#")
    )
    assert [name for name in COMMANDS if not re.search(rf"\bmngr (-S \S+ )?{name}\b", commands)] == []


def test_every_block_is_unique_and_begins_with_a_comment() -> None:
    assert len(list_command_blocks()) >= 40
    assert [block for block in list_command_blocks() if not re.match(r"# \S", block)] == []
    assert len(list_command_blocks()) == len(set(list_command_blocks()))
