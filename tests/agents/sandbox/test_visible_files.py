"""Tests which files a sandboxed agent sees."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def make_python(installation: Path) -> Path:
    """Create files like those of a Python installation, and return the program."""
    program = installation / "bin/python3.12"
    for path in (program, installation / "lib/python3.12/os.py"):
        path.parent.mkdir(parents=True)
        path.touch()
    program.chmod(0o755)
    return program


def list_shown_dirs(home: Path, program: Path) -> list[str]:
    """Return what a clean room shows for a virtual environment whose Python is a link to this program."""
    link = home / "work/foo/.venv/bin/python"
    link.parent.mkdir(parents=True)
    link.symlink_to(program)
    args = visible_files.build_virtualenv_args(Home(str(home)), str(home / "work/foo/.venv"))
    assert args[1::3] == args[2::3]
    return args[1::3]


def test_the_python_installation_behind_a_virtual_environment_is_visible(tmp_path: Path) -> None:
    make_python(tmp_path / "cpython-3.12.1")
    (tmp_path / "cpython-3.12").symlink_to("cpython-3.12.1")
    shown = list_shown_dirs(tmp_path / "home", tmp_path / "cpython-3.12/bin/python3.12")
    installations = (tmp_path / "cpython-3.12.1", tmp_path / "cpython-3.12")
    assert shown == [str(path / name) for path in installations for name in ("bin", "lib")]


@pytest.mark.parametrize("name", [".ssh/id_rsa", ".ssh/bin/python3", "tools/bin/python3"])
def test_a_file_that_is_no_python_installation_stays_hidden_behind_a_virtual_environment(
    tmp_path: Path, name: str
) -> None:
    private = tmp_path / name
    (private.parent / "../lib/python3.12").mkdir(parents=True)
    private.parent.mkdir(parents=True, exist_ok=True)
    private.write_text("a private key")
    private.chmod(0o700)
    assert list_shown_dirs(tmp_path / "home", private) == []


def test_a_link_named_like_a_python_does_not_show_the_directories_around_it(tmp_path: Path) -> None:
    program = make_python(tmp_path / "cpython")
    link = tmp_path / "project/bin/python3.12"
    link.parent.mkdir(parents=True)
    (tmp_path / "project/lib").mkdir()
    link.symlink_to(program)
    assert list_shown_dirs(tmp_path / "home", link) == [str(tmp_path / "cpython" / name) for name in ("bin", "lib")]


def test_the_directory_around_the_users_home_is_never_a_python_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "all/me"))
    assert list_shown_dirs(tmp_path / "home", make_python(tmp_path / "all")) == []


def test_a_python_that_a_setup_installed_is_visible(tmp_path: Path) -> None:
    pythons = tmp_path / "home/cache/packages/abc/pythons"
    assert list_shown_dirs(tmp_path / "home", make_python(pythons / "cpython-3.12")) == [str(pythons)]


@pytest.mark.parametrize("name", ["cache/packages/abc/home", "cache/packages/a-1.home/pythons", "work/bar"])
def test_no_other_file_of_mngr_is_visible_as_a_python(tmp_path: Path, name: str) -> None:
    assert list_shown_dirs(tmp_path / "home", make_python(tmp_path / "home" / name / "cpython-3.12")) == []


def test_a_path_with_bin_shows_no_directory_at_the_top(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`/bin` has a directory `lib` next to it, but a directory such as `/share` can hold anything."""
    monkeypatch.setattr(visible_files, "_INSTALLATION_PARTS", ("bin", "lib", "var"))
    assert "/var" not in visible_files.list_program_paths(Home(str(tmp_path / "home")), "/bin:/usr/bin", "sh")
