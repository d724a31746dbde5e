"""Our own tutorial runs from top to bottom, and leaves no command out."""

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


def blocks() -> list[str]:
    """Those with at least one command."""
    return [block.text for block in read_script(str(TUTORIAL)).blocks if block.commands]


@pytest.mark.full  # its blocks are run by the tests that cite them
def test_it_runs_from_top_to_bottom_and_leaves_nothing_behind(mngr: MngrProgram, tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    done = subprocess.run(
        ["sh", "-x", TUTORIAL], cwd=mngr.repo, env={**mngr.env, "TMPDIR": str(place)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode:
        for link in place.glob("*/home/tmux.socket"):
            subprocess.run(["tmux", "-S", os.readlink(link), "kill-server"], capture_output=True, check=False)
        pytest.fail(f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    (home,) = set(re.findall(r"^\+ export MNGR_HOME=(\S+)$", done.stderr, re.MULTILINE))
    os.unlink(build_socket_path(home, os.getuid()))  # tmux leaves it
    assert list(place.iterdir()) == []
    assert not mngr.home.exists()
    assert run_git(mngr.repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert "a bug in mngr" not in done.stderr


def test_every_command_is_in_it() -> None:
    said = " ".join(line for block in blocks() for line in block.splitlines() if not line.startswith("#"))
    assert [name for name in COMMANDS if not re.search(rf"\bmngr (-S \S+ )?{name}\b", said)] == []


def test_every_block_says_what_it_does() -> None:
    assert len(blocks()) >= 40
    assert [block for block in blocks() if not re.match(r"# \S", block)] == []
    assert len(blocks()) == len(set(blocks()))
