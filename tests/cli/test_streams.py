"""Tests of standard streams that the caller closed."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import BIN_DIR, MngrProgram


@pytest.mark.parametrize("command", ["list", "version", "--help", "help create", "config list", "doctor"])
def test_a_command_succeeds_with_a_closed_stdout(mngr: MngrProgram, command: str) -> None:
    result = mngr(*command.split())
    assert result.out + result.err
    argv = ["sh", "-c", f'"$0" {command} >&-', str(BIN_DIR / "mngr")]
    process = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, result.err)


def test_create_and_exec_work_with_closed_streams(mngr: MngrProgram) -> None:
    argv = ["sh", "-c", '"$0" create foo -- sleep 1000 <&- >&- 2>&-', str(BIN_DIR / "mngr")]
    assert subprocess.run(argv, cwd=mngr.repo, env=mngr.env, check=False).returncode == 0
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    argv = ["sh", "-c", '"$0" exec foo -- echo hi >&-', str(BIN_DIR / "mngr")]
    process = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=False)
    assert "Traceback" not in process.stderr and "bug" not in process.stderr
