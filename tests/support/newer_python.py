"""Finds a Python with `sys.monitoring` (3.12 or newer), which traces in another way than the Python of the tests may."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

_NAMES = ("python3.14", "python3.13", "python3.12")
_BESIDE = Path(sys.base_prefix).parent  # where version managers keep the other versions


@cache
def find_monitoring_python() -> str | None:
    """Return an interpreter with `sys.monitoring` on PATH or beside the Python of the tests, or None."""
    installed = [path for name in _NAMES if (path := shutil.which(name))]
    beside = [str(path) for path in sorted(_BESIDE.glob("3.1[2-9]*/bin/python"), reverse=True)]
    return next((path for path in (sys.executable, *beside, *installed) if _has_monitoring(path)), None)


def _has_monitoring(python: str) -> bool:
    done = subprocess.run([python, "-c", "import sys, venv; sys.monitoring"], capture_output=True, check=False)
    return done.returncode == 0


def make_environment(python: str, place: Path) -> str:
    """Return the interpreter of a new environment of another Python that has the packages of this one."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(place)], check=True)
    (folder,) = place.glob("lib/*/site-packages")
    (folder / "here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(place / "bin" / "python")
