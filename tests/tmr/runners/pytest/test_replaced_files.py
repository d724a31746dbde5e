"""Replaced files: Python sees each of their texts, and none is outside the work dir."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mngr.tmr.runners.pytest.in_clean_room import replaced_files


def test_python_never_reuses_the_bytecode_of_a_replaced_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from package import part; print(part.x)"]
    for number in ("1", "2", "1"):  # all have the same size and the same second
        replaced_files.write_files(str(tmp_path), {"package/part.py": replaced_files.pack_text(f"x = {number}\n")})
        assert subprocess.check_output(command, cwd=tmp_path, env={}, text=True) == f"{number}\n"
    replaced_files.write_files(str(tmp_path), {"package/part.py": None})
    assert not (tmp_path / "package/part.py").exists()


def test_no_file_is_written_outside_the_work_dir(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="points outside"):
        replaced_files.write_files(str(tmp_path / "work"), {"link/x": replaced_files.pack_text("x")})
