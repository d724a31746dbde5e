"""`mngr plugin list` from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MngrProgram

MODULE = """
from types import SimpleNamespace
import pluggy
hookimpl = pluggy.HookimplMarker("mngr")

@hookimpl
def mngr_kinds():
    return [SimpleNamespace(name="parrot")]

@hookimpl
def mngr_destroyed(agent):
    pass
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A place on the import path with one plugin in it."""
    info = tmp_path / "site/parrots-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[console_scripts]\nx = y:z\n\n[mngr]\nparrots = parrot_plugin\n")
    (tmp_path / "site/parrot_plugin.py").write_text(MODULE)
    return tmp_path / "site"


def test_without_plugins_it_says_so(mngr: MngrProgram) -> None:
    assert mngr("plugin", "list").out == "no plugins are installed\n"
    assert mngr.run_json("plugin", "list") == {"v": 1, "plugins": []}


def test_a_plugin_is_shown_with_what_it_adds(mngr: MngrProgram, site: Path) -> None:
    env = {"PYTHONPATH": str(site)}
    assert "parrots  parrots 1.2  kind parrot, hook mngr_destroyed" in mngr("plugin", "list", env=env).out
    [plugin] = mngr.run_json("plugin", "list", env=env)["plugins"]
    assert (plugin["kinds"], plugin["commands"], plugin["providers"]) == (["parrot"], [], [])
    assert plugin["hooks"] == ["mngr_destroyed", "mngr_kinds"]


def test_a_broken_plugin_hides_no_other(mngr: MngrProgram, site: Path) -> None:
    info = site / "broken-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[mngr]\nbroken = no_such_module_at_all\n")
    ran = mngr("plugin", "list", env={"PYTHONPATH": str(site)}, code=1)
    assert "kind parrot" in ran.out
    assert "the plugin 'broken' (broken 1.0) cannot be loaded" in ran.err
    assert "pip uninstall broken" in ran.err
