"""Tests of `mngr config`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import MngrProgram


def test_config_list_shows_every_value_with_its_source(mngr: MngrProgram) -> None:
    mngr("config", "set", "project.setup", "make it")
    mngr("config", "set", "stop.grace", "3s")
    mngr("config", "set", "project.pytest", "pytest -x", "--local")
    listed = mngr.run_json("config", "list", "-S", "tutorial.tests=t", env={"MNGR__TUTORIAL__FILE": "t.sh"})["settings"]
    project, local, user = (
        mngr.repo / ".mngr/settings.toml",
        mngr.repo / ".mngr/settings.local.toml",
        mngr.home / "settings.toml",
    )
    assert listed == [
        {"key": "project.pytest", "value": "pytest -x", "source": "local", "path": str(local)},
        {"key": "project.setup", "value": "make it", "source": "project", "path": str(project)},
        {"key": "pull.max_bytes", "value": 10 << 30, "source": "default", "path": None},
        {"key": "pull.max_file_bytes", "value": 1 << 30, "source": "default", "path": None},
        {"key": "pull.max_files", "value": 100_000, "source": "default", "path": None},
        {"key": "pull.timeout", "value": "1h", "source": "default", "path": None},
        {"key": "stop.grace", "value": "3s", "source": "user", "path": str(user)},
        {"key": "trash.keep", "value": "30d", "source": "default", "path": None},
        {"key": "tutorial.file", "value": "t.sh", "source": "env", "path": None},
        {"key": "tutorial.tests", "value": "t", "source": "-S", "path": None},
        {"key": "tutorial.timeout", "value": "30s", "source": "default", "path": None},
    ]
    assert f"make it      project ({project})" in mngr("config", "list").out


def test_config_get_prints_only_the_value(mngr: MngrProgram) -> None:
    mngr("config", "set", "project.carry", '[".env", "a b"]')
    assert mngr("config", "get", "project.carry").out == '[".env", "a b"]\n'
    assert mngr("config", "get", "stop.grace").out == "2s\n"
    assert mngr("config", "get", "stop.grace", "--format", "{key} from {source}").out == "stop.grace from default\n"


def test_an_unset_setting_and_an_unknown_setting_give_different_errors(mngr: MngrProgram) -> None:
    assert "project.setup is not set" in mngr("config", "get", "project.setup", code=1).err
    result = mngr("config", "get", "project.setpu", code=2)
    assert "there is no setting 'project.setpu'" in result.err
    assert "did you mean 'project.setup'?" in result.err
    assert "there is no setting" in mngr("config", "unset", "project.setpu", code=2).err


def test_config_set_keeps_comments_and_order_of_the_file(mngr: MngrProgram) -> None:
    path = mngr.repo / ".mngr/settings.toml"
    path.parent.mkdir()
    path.write_text('# mine\n[project]\nsetup = "x"  # why\ncarry = ["a"]\n\n[tutorial]\nfile = "t.sh"\n')
    mngr("config", "set", "project.setup", "y")
    mngr("config", "set", "project.carry+=b")
    mngr("config", "set", "project.program=z")
    expected = '# mine\n[project]\nsetup = "y"  # why\ncarry = ["a", "b"]\nprogram = "z"\n\n[tutorial]\nfile = "t.sh"\n'
    assert path.read_text() == expected
    mngr("config", "unset", "project.program")
    mngr("config", "unset", "tutorial.file")
    assert path.read_text() == '# mine\n[project]\nsetup = "y"  # why\ncarry = ["a", "b"]\n\n[tutorial]\n'


def test_plus_equals_extends_the_value_of_another_file(mngr: MngrProgram) -> None:
    mngr("config", "set", "project.carry", "['a']", "--user")
    mngr("config", "set", "project.carry+=", "b", "--project")
    mngr("config", "set", "project.carry+=c", "--project")
    assert mngr.run_json("config", "get", "project.carry")["value"] == ["a", "b", "c"]
    mngr("config", "set", "project.carry", "['d']", "--project")
    assert mngr.run_json("config", "get", "project.carry")["value"] == ["d"]
    assert "+=" not in (mngr.repo / ".mngr/settings.toml").read_text()
    mngr("config", "unset", "project.carry", "--project")
    assert mngr.run_json("config", "get", "project.carry")["value"] == ["a"]


def test_unset_removes_the_value_in_effect_first(mngr: MngrProgram) -> None:
    for scope in ("--user", "--project", "--local"):
        mngr("config", "set", "project.setup", scope[2:], scope)
    values = []
    for _ in range(3):
        values.append(mngr("config", "get", "project.setup").out.strip())
        mngr("config", "unset", "project.setup")
    assert values == ["local", "project", "user"]
    assert not (mngr.repo / ".mngr/settings.local.toml").exists()  # mngr deletes an empty file.
    assert "is not set in any settings file" in mngr("config", "unset", "project.setup", code=1).err
    assert f"is not set in {mngr.home}" in mngr("config", "unset", "stop.grace", "--user", code=1).err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["project.setpu", "x"], 2, "did you mean 'project.setup'?"),
        (["project.setup+=x"], 2, "project.setup must be text"),
        (["project.setup"], 2, "'project.setup' is not KEY=VALUE"),
        (["commands.create.cuont", "3"], 2, "did you mean 'count'?"),
        (["commands.create.count", "three"], 2, "--count needs a whole number, not 'three'"),
        (["commands.create.transfer", "wortree"], 2, "did you mean 'worktree'?"),
        (["commands.crate.count", "3"], 2, "did you mean 'create'?"),
        (["templates.t.cuont", "3"], 2, "did you mean 'count'?"),
        (["stop.grace", "x", "--user", "--local"], 2, "--user and --local cannot be combined"),
        (["project.setup", "x", "--global"], 2, "has no option --global"),
    ],
)
def test_a_wrong_setting_is_rejected_and_nothing_is_written(
    mngr: MngrProgram, words: list[str], code: int, said: str
) -> None:
    assert said in mngr("config", "set", *words, code=code).err
    assert not (mngr.repo / ".mngr").exists()
    assert not mngr.home.exists()


def test_a_setting_changes_the_default_of_an_option(mngr: MngrProgram) -> None:
    mngr("config", "set", "commands.list.format", "json")
    assert mngr("list").out.startswith('{"v": 1')
    assert not mngr("list", "--format", "human").out.startswith("{")
    mngr("config", "set", "commands.config.list.format", "{key}")
    assert mngr("config", "list").out.splitlines() == [
        "commands.config.list.format", "commands.list.format", "pull.max_bytes", "pull.max_file_bytes",
        "pull.max_files", "pull.timeout", "stop.grace", "trash.keep", "tutorial.timeout",
    ]  # fmt: skip


def test_outside_a_project_only_the_user_settings_exist(mngr: MngrProgram, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert mngr("config", "path", cwd=plain).out.split()[3:] == [
        "user",
        str(mngr.home / "settings.toml"),
        "no",
    ]
    assert "is not in a project" in mngr("config", "set", "project.setup", "x", cwd=plain, code=1).err
    assert "is not in a project" in mngr("config", "path", "--local", cwd=plain, code=1).err
    mngr("config", "set", "stop.grace", "9s", cwd=plain)
    assert mngr("config", "get", "stop.grace", cwd=plain).out == "9s\n"


def test_config_path_with_a_scope_prints_only_that_path(mngr: MngrProgram) -> None:
    assert mngr("config", "path", "--project").out == f"{mngr.repo}/.mngr/settings.toml\n"
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text("")
    rows = mngr.run_json("config", "path")["paths"]
    assert [(row["source"], row["exists"]) for row in rows] == [
        ("user", False),
        ("project", True),
        ("local", False),
    ]


def test_a_broken_settings_file_is_named_and_can_be_repaired(mngr: MngrProgram) -> None:
    path = mngr.repo / ".mngr/settings.toml"
    path.parent.mkdir()
    path.write_text('[project]\nsetpu = "x"\n')
    result = mngr("list", code=1)
    assert f"{path}: there is no setting 'project.setpu'" in result.err
    assert mngr("config", "path", "--project").out == f"{path}\n"
    mngr("config", "unset", "project.setpu")
    mngr("list")
    path.write_text("[project\n")
    assert "is not valid TOML" in mngr("list", code=1).err
    assert f"{path} is not valid TOML" in mngr("config", "unset", "project.setup", code=1).err


def test_config_set_keeps_a_symlinked_settings_file(mngr: MngrProgram, tmp_path: Path) -> None:
    dotfile = tmp_path / "dotfile.toml"
    dotfile.write_text("# kept elsewhere\n")
    dotfile.chmod(0o600)
    mngr.home.mkdir()
    os.symlink(dotfile, mngr.home / "settings.toml")
    mngr("config", "set", "stop.grace", "9s")
    assert (mngr.home / "settings.toml").is_symlink()
    assert dotfile.read_text() == '# kept elsewhere\n\n[stop]\ngrace = "9s"\n'
    assert dotfile.stat().st_mode & 0o777 == 0o600


def test_a_wrong_duration_is_rejected(mngr: MngrProgram) -> None:
    result = mngr("config", "set", "stop.grace", "soon", code=2)
    assert result.err == (
        "Error: config set: stop.grace: 'soon' is not a length of time\nHint: write it as 90s, 10m, 1h30m or 2d\n"
    )
    assert mngr("config", "get", "stop.grace").out == "2s\n"


def test_an_unknown_tmr_option_is_rejected(mngr: MngrProgram) -> None:
    assert (
        "tmr.nosuch is wrong: mngr tmr run has no option 'nosuch'"
        in mngr("config", "set", "tmr.nosuch", "3", code=2).err
    )
    assert "--max-agents needs a whole number" in mngr("config", "set", "tmr.max_agents", "x", code=2).err
    assert "the setting templates.t.nosuch is wrong" in mngr("config", "set", "templates.t.nosuch", "1", code=2).err
    mngr("config", "set", "tmr.max_agents", "3")
    mngr("config", "set", "tmr.merge_tool", "x {base}")
