"""Tests `mngr plugin list` as a user runs it."""

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
    """A directory on the import path with one plugin."""
    info = tmp_path / "site/parrots-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[console_scripts]\nx = y:z\n\n[mngr]\nparrots = parrot_plugin\n")
    (tmp_path / "site/parrot_plugin.py").write_text(MODULE)
    return tmp_path / "site"


def test_plugin_list_without_plugins(mngr: MngrProgram) -> None:
    assert mngr("plugin", "list").out == "no plugins are installed\n"
    assert mngr.run_json("plugin", "list") == {"v": 1, "plugins": []}


def test_plugin_list_shows_what_a_plugin_adds(mngr: MngrProgram, site: Path) -> None:
    env = {"PYTHONPATH": str(site)}
    assert "parrots  parrots 1.2  kind parrot, hook mngr_destroyed" in mngr("plugin", "list", env=env).out
    [plugin] = mngr.run_json("plugin", "list", env=env)["plugins"]
    assert (plugin["kinds"], plugin["commands"], plugin["providers"]) == (["parrot"], [], [])
    assert plugin["hooks"] == ["mngr_destroyed", "mngr_kinds"]


def test_a_broken_plugin_does_not_hide_others(mngr: MngrProgram, site: Path) -> None:
    info = site / "broken-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[mngr]\nbroken = no_such_module_at_all\n")
    result = mngr("plugin", "list", env={"PYTHONPATH": str(site)}, code=1)
    assert "kind parrot" in result.out
    assert "the plugin 'broken' (broken 1.0) cannot be loaded" in result.err
    assert "pip uninstall broken" in result.err
