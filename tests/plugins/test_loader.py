"""Finding and loading plugins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.agents.context import Context
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord
from mngr.base.paths import Home
from mngr.plugins.loader import LoadedPlugins, Plugin, list_plugins
from tests.conftest import BIN_DIR, MngrProgram

AGENT = AgentRecord(
    id="a-000000000000", name="foo", kind="command", phase="ready", project="p", source=None, work_dir="/w",
    transfer="copy", created_at="2026-01-01T00:00:00.000Z",
)  # fmt: skip


def make_dist_info(directory: Path, folder: str, text: str | bytes) -> Path:
    """Create the metadata folder of an installed package with these entry points, and return its parent."""
    (directory / folder).mkdir(parents=True)
    (directory / folder / "entry_points.txt").write_bytes(text.encode() if isinstance(text, str) else text)
    return directory


def find_plugins(*directories: Path) -> list[tuple[str, str, str]]:
    return [
        (plugin.name, plugin.target, plugin.package)
        for plugin in list_plugins([str(directory) for directory in directories])
    ]


def load_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> tuple[LoadedPlugins, list[str]]:
    """Return the plugins with one module of this source, and the list that receives its failures."""
    module = f"plugin_{abs(hash((str(tmp_path), source)))}"
    (tmp_path / f"{module}.py").write_text("from mngr.plugins.hooks import hookimpl\n" + source)
    monkeypatch.syspath_prepend(str(tmp_path))
    notes: list[str] = []
    return LoadedPlugins(
        [Plugin(name="mine", target=module, package="mine 1.0")], Home(str(tmp_path / "home")), notes.append
    ), notes


def test_entry_points_in_the_group_mngr_are_plugins(tmp_path: Path) -> None:
    text = "[console_scripts]\nx = other:main\n\n[mngr]\nfirst = one\nsecond=two:PLUGIN\n\n[other]\nz = three\n"
    assert find_plugins(make_dist_info(tmp_path, "my_plugin-1.2.dist-info", text)) == [
        ("first", "one", "my_plugin 1.2"),
        ("second", "two:PLUGIN", "my_plugin 1.2"),
    ]


def test_comments_extras_and_spaces_in_entry_points_are_ignored(tmp_path: Path) -> None:
    text = "[mngr]\n# old = gone\n\n  first  =  one:a.b  [extra,more]  \nnonsense\n"
    assert find_plugins(make_dist_info(tmp_path, "p-1.egg-info", text)) == [("first", "one:a.b", "p 1")]


def test_broken_metadata_folders_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "empty-1.dist-info").mkdir()
    (tmp_path / "file-1.egg-info").write_text("[mngr]\nx = y\n")
    (tmp_path / "broken-1.dist-info").symlink_to(tmp_path / "nowhere")
    make_dist_info(tmp_path, "directory-1.dist-info", "").joinpath("directory-1.dist-info", "entry_points.txt").unlink()
    (tmp_path / "directory-1.dist-info" / "entry_points.txt").mkdir()
    make_dist_info(tmp_path, "latin-1.dist-info", b"[mngr]\nfirst = one\n# gr\xfc\xdfe\n")
    make_dist_info(tmp_path, "other-1.dist-info", "[mngr.more]\nx = y\n[mngrs]\nz = w\n")
    assert find_plugins(tmp_path, tmp_path / "no-such-place") == [("first", "one", "latin 1")]


def test_the_first_plugin_of_a_name_on_the_import_path_wins(tmp_path: Path) -> None:
    new = make_dist_info(tmp_path / "new", "p-2.dist-info", "[mngr]\nx = new\n")
    old = make_dist_info(tmp_path / "old", "p-1.dist-info", "[mngr]\nx = old\n")
    assert find_plugins(new, old) == [("x", "new", "p 2")]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module_at_all", "No module named 'no_such_module_at_all'"),
        ("mngr.base.errors:Missing", "has no attribute 'Missing'"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_named_with_a_hint(tmp_path: Path, value: str, said: str) -> None:
    hooks = LoadedPlugins([Plugin(name="bad", target=value, package="bad_one 1.0")], Home(str(tmp_path)), print)
    with pytest.raises(MngrError) as caught:
        hooks.list_kinds()
    assert caught.value.message.startswith("the plugin 'bad' (bad_one 1.0) cannot be loaded: ")
    assert said in caught.value.message
    assert caught.value.hint == "update it: pip install -U bad_one; or uninstall it: pip uninstall bad_one"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("@hookimpl\ndef mngr_kind(): return []\n", "mngr_kind"),
        ("@hookimpl\ndef mngr_kinds(colour): return []\n", "colour"),
        ("raise SystemError('out of order')\n", "out of order"),
    ],
)
def test_a_plugin_with_an_invalid_hook_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, said: str
) -> None:
    hooks, _ = load_plugin(tmp_path, monkeypatch, source)
    with pytest.raises(MngrError, match=r"the plugin 'mine' \(mine 1.0\) cannot be loaded") as caught:
        hooks.list_commands()
    assert said in caught.value.message


def test_a_hook_implementation_may_omit_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, notes = load_plugin(
        tmp_path, monkeypatch, "seen = []\n@hookimpl\ndef mngr_created(agent): seen.append(agent.name)\n"
    )
    hooks.notify("mngr_created", agent=AGENT)
    assert sys.modules[hooks.plugins[0].target].__dict__["seen"] == ["foo"]
    assert notes == []


def test_a_failing_lifecycle_hook_is_only_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, notes = load_plugin(tmp_path, monkeypatch, "@hookimpl\ndef mngr_stopped(agent): raise ValueError('oh no')\n")
    hooks.notify("mngr_stopped", agent=AGENT)
    assert notes == ["a plugin failed in mngr_stopped: ValueError: oh no"]


def test_an_exception_in_the_step_hook_fails_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from mngr.base.errors import MngrError\n@hookimpl\ndef mngr_step(step):\n"
    source += (
        "    if step == 'launch': raise MngrError('not today', 'come back tomorrow')\n    if step == 'odd': 1 / 0\n"
    )
    hooks, _ = load_plugin(tmp_path, monkeypatch, source)
    announce = hooks.make_step_announcer("create", AGENT)
    announce("reserve")
    with pytest.raises(MngrError, match="not today"):
        announce("launch")
    with pytest.raises(MngrError, match="a plugin failed in mngr_step: ZeroDivisionError"):
        announce("odd")


def test_without_plugins_results_are_empty_and_settings_are_not_read(tmp_path: Path) -> None:
    def settings() -> Any:
        raise AssertionError("read for nobody")

    hooks = LoadedPlugins([], Home(str(tmp_path)), print)
    assert hooks.find_plugin_manager() is None
    assert hooks.list_providers(settings) == [] == hooks.list_kinds() == hooks.list_commands()
    hooks.notify("mngr_created", agent=AGENT)
    hooks.make_step_announcer("create", AGENT)("reserve")


def test_a_plugin_cannot_replace_a_built_in_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "class Fake: name = 'local'\n@hookimpl\ndef mngr_providers(home, settings): return [Fake()]\n"
    hooks, _ = load_plugin(tmp_path, monkeypatch, source)
    context = Context(str(tmp_path / "home"))
    context._hooks = hooks
    assert type(context.get_provider("local")).__name__ == "LocalProvider"


def test_without_plugins_pluggy_is_not_imported(mngr: MngrProgram) -> None:
    program = "import sys; from mngr.cli.main import main; main(['list']); print('pluggy' in sys.modules)"
    argv = [str(BIN_DIR / "python"), "-c", program]
    result = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_a_broken_plugin_makes_a_command_fail_with_a_hint(mngr: MngrProgram, tmp_path: Path) -> None:
    directory = make_dist_info(tmp_path / "site", "bad_one-1.0.dist-info", "[mngr]\nbad = no_such_module_at_all\n")
    result = mngr("list", env={"PYTHONPATH": str(directory)}, code=1)
    assert "the plugin 'bad' (bad_one 1.0) cannot be loaded: No module named" in result.err
    assert "Hint: update it: pip install -U bad_one; or uninstall it: pip uninstall bad_one" in result.err
