"""Tests which files a sandboxed agent sees."""

from __future__ import annotations

from pathlib import Path

from mngr.agents.sandbox import visible_files
from mngr.base.paths import Home


def test_a_node_program_is_visible_with_the_packages_beside_it(tmp_path: Path) -> None:
    modules = tmp_path / "prefix/node_modules"
    for name in (".bin", "@maker/tool/bin", "@maker/tool-linux/bin"):
        (modules / name).mkdir(parents=True)
    (modules / "@maker/tool/bin/tool.js").touch()
    (modules / ".bin/tool").symlink_to("../@maker/tool/bin/tool.js")
    paths = visible_files.list_program_paths(Home(str(tmp_path / "home")), f"{modules}/.bin:/usr/bin", "tool")
    assert str(modules) in paths
