"""The example plugin's provider, by the checks that every provider must pass."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mngr.contract import HostContract, Place
from mngr.contract.program import BIN

EXAMPLE = Path(__file__).parents[2] / "examples" / "mngr-example"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the plugin in it, as pip leaves it; nothing is fetched."""
    place = tmp_path_factory.mktemp("site")
    flags = ["-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([BIN / "python", "-m", "pip", "install", *flags, "--target", place, EXAMPLE], check=True)
    return place


class TestScratch(HostContract):
    @pytest.fixture
    def place(self, site: Path) -> Place:
        return Place("scratch", "box", env={"PYTHONPATH": str(site)}, is_here=True)
