"""`mngr version` from outside."""

from __future__ import annotations

from mngr import __version__
from tests.conftest import MngrProgram


def test_the_version_is_the_packages_own(mngr: MngrProgram) -> None:
    assert mngr("version").out == mngr("--version").out == f"mngr {__version__}\n"
    assert mngr.run_json("version")["version"] == __version__
