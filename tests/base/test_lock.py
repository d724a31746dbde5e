"""Locks between processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mngr.base.errors import MngrError, TimedOut
from mngr.base.lock import Lock

HOLD = (
    "import sys; from mngr.base.lock import Lock\nwith Lock(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
)


def start_lock_holder(path: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_waiting_too_long_for_a_lock_raises_timed_out(tmp_path: Path) -> None:
    with start_lock_holder(tmp_path / "lock") as process:
        with (
            pytest.raises(TimedOut, match=r"was locked by another process for 0\.05s"),
            Lock(str(tmp_path / "lock"), 0.05),
        ):
            pass
        process.communicate("")


def test_killing_the_holder_releases_the_lock(tmp_path: Path) -> None:
    with start_lock_holder(tmp_path / "lock") as process:
        process.kill()
        process.wait()
        with Lock(str(tmp_path / "lock"), 5):
            pass


def test_an_exception_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), Lock(str(tmp_path / "lock")):
        raise ValueError("x")
    with Lock(str(tmp_path / "lock"), 0):
        pass


def test_a_lock_file_that_cannot_be_created_raises_mngr_error(tmp_path: Path) -> None:
    with pytest.raises(MngrError, match="cannot lock"), Lock(str(tmp_path / "no" / "lock")):
        pass


def test_concurrent_increments_under_a_lock_are_all_counted(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    counter.write_text("0")
    code = (
        "import sys; from mngr.base.lock import Lock\n"
        "for _ in range(25):\n"
        "  with Lock(sys.argv[1]): n = int(open(sys.argv[2]).read()); open(sys.argv[2], 'w').write(str(n + 1))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "lock"), str(counter)]
    processes = [subprocess.Popen(argv) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert counter.read_text() == "100"
