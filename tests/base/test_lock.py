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


def holder(path: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_who_waits_too_long_is_told(tmp_path: Path) -> None:
    with holder(tmp_path / "lock") as process:
        with (
            pytest.raises(TimedOut, match=r"was locked by another process for 0\.05s"),
            Lock(str(tmp_path / "lock"), 0.05),
        ):
            pass
        process.communicate("")


def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    with holder(tmp_path / "lock") as process:
        process.kill()
        process.wait()
        with Lock(str(tmp_path / "lock"), 5):
            pass


def test_a_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), Lock(str(tmp_path / "lock")):
        raise ValueError("x")
    with Lock(str(tmp_path / "lock"), 0):
        pass


def test_a_lock_that_cannot_be_made_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(MngrError, match="cannot lock"), Lock(str(tmp_path / "no" / "lock")):
        pass


def test_counting_under_a_lock_loses_nothing(tmp_path: Path) -> None:
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
