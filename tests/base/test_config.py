"""Settings: later layers replace values, `+=` extends them, and every value knows its source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base import config
from mngr.base.config import Settings, SettingsLayer
from mngr.base.errors import MngrError, UsageError

KEYS = st.sampled_from(["project.setup", "project.carry", "commands.list.sort", "templates.t.env"])
VALUES = st.one_of(st.text(max_size=5), st.lists(st.text(max_size=3), max_size=3), st.integers())
LAYERS = st.lists(st.dictionaries(KEYS, VALUES, max_size=3), max_size=5)


def merge_layers(*datas: dict[str, Any]) -> Settings:
    return Settings([SettingsLayer(source=f"layer {number}", data=data) for number, data in enumerate(datas)])


@given(LAYERS)
def test_the_last_layer_with_a_key_sets_its_value_and_source(datas: list[dict[str, Any]]) -> None:
    settings = merge_layers(*datas)
    expected: dict[str, tuple[Any, str]] = {}
    for number, data in enumerate(datas):
        for key, value in data.items():
            expected[key] = (value, f"layer {number}")
    assert {key: (settings.get(key), settings.get_source(key)) for key in settings.values} == expected


@given(LAYERS, st.dictionaries(KEYS, VALUES, max_size=3))
def test_empty_and_repeated_layers_change_nothing(datas: list[dict[str, Any]], last: dict[str, Any]) -> None:
    assert merge_layers(*datas, {}).values == merge_layers(*datas).values
    assert merge_layers(*datas, last, last).values == merge_layers(*datas, last).values


@given(st.lists(st.lists(st.text(max_size=3), max_size=3), max_size=5))
def test_plus_equals_extends_lists_in_layer_order(lists: list[list[str]]) -> None:
    settings = merge_layers(*({"project": {"carry+=": items}} for items in lists))
    assert settings.get("project.carry", []) == [item for items in lists for item in items]


def test_plus_equals_after_a_replacement_extends_the_new_value() -> None:
    settings = merge_layers({"a": {"b+=": [1]}}, {"a": {"b": [2]}}, {"a": {"b+=": [3]}})
    assert (settings.get("a.b"), settings.get_source("a.b")) == ([2, 3], "layer 2")


def test_get_table_ignores_keys_that_only_share_the_prefix_text() -> None:
    settings = merge_layers({"commands": {"list": {"sort": "name", "ids": True}, "listing": {"x": 1}}})
    assert settings.get_table("commands.list") == {"sort": "name", "ids": True}


def test_all_layers_are_read_in_order_of_precedence(tmp_path: Path) -> None:
    user = tmp_path / "settings.toml"
    user.write_text(
        '[project]\nsetup = "user"\nprogram = "user"\npytest = "user"\n[tutorial]\nfile = "user"\ntests = "user"\n'
    )
    (tmp_path / ".mngr").mkdir()
    project, local = tmp_path / ".mngr/settings.toml", tmp_path / ".mngr/settings.local.toml"
    project.write_text(
        '[project]\nprogram = "project"\npytest = "project"\n[tutorial]\nfile = "project"\ntests = "project"\n'
    )
    local.write_text('[project]\npytest = "local"\n[tutorial]\nfile = "local"\ntests = "local"\n')
    environ = {"MNGR__TUTORIAL__FILE": "env", "MNGR__TUTORIAL__TESTS": "env", "MNGR_HOME": "no setting"}
    settings = config.load_settings(str(user), str(tmp_path), ["tutorial.tests=given"], environ)
    assert {key: settings.get_source(key) for key in settings.values} == {
        "stop.grace": "default",
        "trash.keep": "default",
        **{f"pull.{key}": "default" for key in ("max_bytes", "max_file_bytes", "max_files", "timeout")},
        "tutorial.timeout": "default",
        "project.setup": f"user ({user})",
        "project.program": f"project ({project})",
        "project.pytest": f"local ({local})",
        "tutorial.file": "env",
        "tutorial.tests": "-S",
    }
    assert [settings.get(f"tutorial.{name}") for name in ("file", "tests")] == ["env", "given"]


def test_all_assignments_on_the_command_line_apply_in_order() -> None:
    settings = config.load_settings(
        "/nowhere", None, ["project.carry=a", "project.carry+=b", "project.carry+=['c', 'd']"], {}
    )
    assert settings.get("project.carry") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("project.setup=uv sync", ("project.setup", "uv sync")),
        ("project.setup=5", ("project.setup", "5")),
        ("project.setup='5'", ("project.setup", "5")),
        ("project.setup=", ("project.setup", "")),
        ("project.setup=a=b", ("project.setup", "a=b")),
        ("project.carry=.env", ("project.carry", [".env"])),
        ("project.carry=['.env', 'x']", ("project.carry", [".env", "x"])),
        ("project.carry+=.env", ("project.carry+=", [".env"])),
        ("commands.create.count=5", ("commands.create.count", 5)),
        ("commands.create.connect=false", ("commands.create.connect", False)),
        ("commands.create.from=1\nx = 2", ("commands.create.from", "1\nx = 2")),
    ],
)
def test_an_assigned_value_gets_the_type_of_its_setting(text: str, pair: tuple[str, Any]) -> None:
    assert config.parse_assignment(text) == pair


@given(st.text())
def test_a_text_setting_accepts_any_text(text: str) -> None:
    _, value = config.parse_assignment(f"project.setup={text}")
    assert isinstance(value, str)


@pytest.mark.parametrize("text", ["project.setup", "=x", "+=x", ""])
def test_an_invalid_assignment_raises_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not KEY=VALUE"):
        config.parse_assignment(text)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("project.setpu", "project.setup"),
        ("trash.keeps", "trash.keep"),
        ("zzz", "see the settings and their values: mngr config list"),
    ],
)
def test_an_unknown_key_error_suggests_the_closest_key(key: str, hint: str) -> None:
    with pytest.raises(MngrError) as caught:
        config.load_settings("/nowhere", None, [f"{key}=1"], {})
    assert repr(key) in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "key", ["project", "project.", "project.setup.more", "commands.create", "commands..x", ".setup"]
)
def test_incomplete_and_overlong_keys_are_unknown(key: str) -> None:
    assert config.find_setting_type(key) is None


@pytest.mark.parametrize("key", ["commands.create.count", "commands.snapshot.create.format", "templates.t.env"])
def test_a_star_in_the_schema_accepts_any_name(key: str) -> None:
    assert config.find_setting_type(key) is object


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project\n", "is not valid TOML"),
        ("[project]\nsetpu = 'x'\n", "there is no setting 'project.setpu'"),
        ("[project]\nsetup = 5\n", "project.setup must be text, not 5"),
        ("[project]\ncarry = '.env'\n", "project.carry must be a list"),
        ("[project]\n'setup+=' = ['x']\n", "project.setup must be text"),
    ],
)
def test_an_invalid_settings_file_is_reported_with_its_path_and_problem(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(MngrError) as caught:
        config.read_settings_file(str(path))
    assert str(path) in caught.value.message
    assert said in caught.value.message
    assert caught.value.hint


def test_a_settings_file_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MngrError, match="is not UTF-8"):
        config.read_settings_file(str(path))


def test_an_unknown_setting_in_the_environment_is_reported_with_its_variable() -> None:
    with pytest.raises(MngrError, match=r"MNGR__PROJECT__SETPU: there is no setting"):
        config.load_settings("/nowhere", None, [], {"MNGR__PROJECT__SETPU": "x"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "[" * 100_000, "is nested too deeply"),
        ("providers" + ".a" * 950 + " = 1", "is nested too deeply"),
        ("providers" + ".a" * 50_000 + " = 1", "has a line with more than 1000 dots"),
        ("# " + "x" * 300_000, "is larger than 256 KB"),
        ('[providers."a\\u001b[2K"]\nb = 1\n', "has a character that cannot be printed"),
        ('[providers."a\\u202eb"]\nb = 1\n', "has a character that cannot be printed"),
    ],
)
def test_a_hostile_settings_file_of_a_project_is_refused_with_its_path(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / ".mngr" / "settings.toml"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(MngrError, match=said) as caught:
        config.load_settings("/nowhere", str(tmp_path), [], {})
    assert str(path) in caught.value.message and caught.value.hint


def test_a_pipe_in_the_place_of_a_projects_settings_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / ".mngr" / "settings.toml"
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(MngrError, match="is not a regular file"):
        config.load_settings("/nowhere", str(tmp_path), [], {})


def test_the_users_own_settings_may_be_a_link_also_where_the_home_directory_is_a_project(tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text('[stop]\ngrace = "3s"\n')
    path = tmp_path / ".mngr" / "settings.toml"
    path.parent.mkdir()
    path.symlink_to(tmp_path / "dotfiles.toml")
    settings = config.load_settings(str(path), str(tmp_path), [], {})
    assert settings.get_source("stop.grace") == f"user ({path})"


def test_the_settings_of_a_project_on_another_host_have_a_size_limit() -> None:
    text = b"# " + b"x" * 300_000
    with pytest.raises(MngrError, match="larger than 256 KB"):
        config.load_settings("/nowhere", None, [], {}, project=("h1:/srv/shop", text))
