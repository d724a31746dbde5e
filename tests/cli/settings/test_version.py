"""Tests of `mngr version`."""

from __future__ import annotations

from mngr import __version__
from tests.conftest import MngrProgram


def test_version_prints_the_version_of_the_package(mngr: MngrProgram) -> None:
    assert mngr("version").out == mngr("--version").out == f"mngr {__version__}\n"
    assert mngr.run_json("version")["version"] == __version__
