"""Streams that the caller closed."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import BIN_DIR, MngrProgram


@pytest.mark.parametrize("command", ["list", "version", "--help", "help create", "config list", "doctor"])
def test_a_closed_stdout_is_as_good_as_none(mngr: MngrProgram, command: str) -> None:
    ran = mngr(*command.split())
    assert ran.out + ran.err
    argv = ["sh", "-c", f'"$0" {command} >&-', str(BIN_DIR / "mngr")]
    done = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ran.err)


def test_what_is_made_with_closed_streams_is_made_well(mngr: MngrProgram) -> None:
    argv = ["sh", "-c", '"$0" create foo -- sleep 1000 <&- >&- 2>&-', str(BIN_DIR / "mngr")]
    assert subprocess.run(argv, cwd=mngr.repo, env=mngr.env, check=False).returncode == 0
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    argv = ["sh", "-c", '"$0" exec foo -- echo hi >&-', str(BIN_DIR / "mngr")]
    done = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
