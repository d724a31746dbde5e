"""Reads settings with their sources, and changes the files that hold them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from mngr.agents.context import Context
from mngr.base import config, paths, shell
from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.base.model import Struct
from mngr.base.trust.setting_trust_levels import TRUSTED, USER_ONLY, classify_setting

SCOPES = ("user", "project", "local")
_PROJECT_TABLES = ("project", "tutorial")  # These tables describe the project, not its user.


class SettingValue(Struct):
    """A value in effect and its source."""

    key: str
    value: Any
    source: str  # default | user | project | local | env | -S
    path: str | None


def list_settings(ctx: Context) -> list[SettingValue]:
    """Return all values in effect, sorted by key."""
    settings = ctx.settings
    rows = [(key, settings.values[key], settings.sources[key]) for key in sorted(settings.values)]
    return [SettingValue(key=key, value=value, source=layer.source, path=layer.path) for key, value, layer in rows]


def get_setting(ctx: Context, key: str) -> SettingValue:
    """Return one setting. Raise NotFound when no layer sets it."""
    config.check_key(key, "config get")
    for setting in list_settings(ctx):
        if setting.key == key:
            return setting
    raise NotFound(f"{key} is not set", f"set it: mngr config set {key} VALUE")


def list_settings_paths(ctx: Context) -> dict[str, str]:
    """Return the settings file of each scope that exists in the current directory."""
    files = {"user": ctx.home.settings}
    root = paths.find_project_root(ctx.cwd)
    if root is not None:
        files["project"] = os.path.join(root, paths.PROJECT_SETTINGS)
        files["local"] = os.path.join(root, paths.LOCAL_SETTINGS)
    return files


def get_settings_path(ctx: Context, scope: str) -> str:
    """Return the settings file of a scope. Raise MngrError for a project's scope outside a project."""
    files = list_settings_paths(ctx)
    if scope not in files:
        raise MngrError(
            f"{ctx.cwd} is not in a project, so it has no {scope} settings",
            "go to a project: cd DIR; or use your own settings: --user",
        )
    return files[scope]


def set_setting(ctx: Context, key: str, value: Any, scope: str | None = None) -> str:
    """Write a setting and return the path of its file, keeping the rest of the file. `key+=` extends a list."""
    plain_key = key.removesuffix("+=")
    config.check_key(plain_key, "config set", value)
    scope = scope or ("project" if plain_key.split(".")[0] in _PROJECT_TABLES else "user")
    setting_class = classify_setting(plain_key)
    if scope != "user" and setting_class == USER_ONLY:
        raise UsageError(
            f"mngr ignores {plain_key} in a project's settings file",
            f"set it for yourself: mngr config set --user {key} VALUE",
        )
    path = get_settings_path(ctx, scope)
    if path == ctx.home.settings:
        config.read_settings_file(path)
    else:
        config.read_project_settings_file(path)

    def change(table: Any, name: str) -> None:
        is_extension = key != plain_key
        if is_extension and name in table:
            table[name] = [*_check_list(plain_key, table[name]), *value]
        elif is_extension:
            table[name + "+="] = [*table.get(name + "+=", []), *value]
        else:
            table.pop(name + "+=", None)
            table[name] = value

    _change_table(ctx, path, plain_key, change)
    if scope != "user" and setting_class == TRUSTED:
        _trust_current_value(ctx, plain_key)
    return path


def _trust_current_value(ctx: Context, key: str) -> None:
    """Trust a setting of the current project as it is now."""
    ctx.reload_settings()
    root = paths.find_project_root(ctx.cwd)
    if root is not None:
        ctx.extend_trust(root, {key: ctx.settings.values[key]})


def unset_setting(ctx: Context, key: str, scope: str | None = None) -> str:
    """Remove a setting from one file and return its path. Without a scope, use the file that is in effect."""
    files = list_settings_paths(ctx) if scope is None else {scope: get_settings_path(ctx, scope)}
    for file_scope, path in reversed(files.items()):
        if _has_key(ctx, path, key):
            _change_table(ctx, path, key, _delete_key)
            if file_scope != "project":  # The project's file may be what marks it as a project.
                _remove_if_empty(path)
            return path
    config.check_key(key, "config unset")
    where = files[scope] if scope else "any settings file"
    raise NotFound(f"{key} is not set in {where}", "see where values come from: mngr config list")


def _remove_if_empty(path: str) -> None:
    """Delete a settings file that has no values and no comments left. Keep a symbolic link."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    if not os.path.islink(path) and all(not line or (line[0] == "[" and line[-1] == "]") for line in lines):
        os.remove(path)


def _check_list(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{key} is not a list, so += cannot extend it", f"replace it: mngr config set {key} VALUE")
    return value


def _delete_key(table: Any, name: str) -> None:
    table.pop(name, None)
    table.pop(name + "+=", None)


def _has_key(ctx: Context, path: str, key: str) -> bool:
    document = _read_document(ctx, path)
    for part in key.split(".")[:-1]:
        document = document.get(part)
        if not isinstance(document, dict):
            return False
    name = key.rpartition(".")[2]
    return name in document or name + "+=" in document


def _read_document(ctx: Context, path: str) -> Any:
    """Return the TOML document of a file with its comments, or an empty one when there is no file."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(_read_text(ctx, path))
    except OSError as error:
        raise MngrError(f"cannot read {path}: {error.strerror}", f"check its permissions: ls -l {path}") from None
    except (UnicodeDecodeError, TOMLKitError, RecursionError) as error:
        raise MngrError(
            f"{path} is not valid TOML: {error}", f"correct the file, or rename it: mv {path} {path}.old"
        ) from None


def _read_text(ctx: Context, path: str) -> str:
    """Return the text of a settings file, or an empty one when there is no file. Only the user's own may be a link."""
    if path != ctx.home.settings:
        return (config.read_project_settings_text(path) or b"").decode()
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def _change_table(ctx: Context, path: str, key: str, change: Callable[[Any, str], None]) -> None:
    """Apply `change` to the table that holds `key`, and replace the file in one step."""
    import tomlkit

    document = _read_document(ctx, path)
    *tables, name = key.split(".")
    table = document
    for part in tables:
        if not isinstance(table.get(part), dict):
            table[part] = tomlkit.table()
        table = table[part]
    change(table, name)
    if path == ctx.home.settings:
        ctx.home.create()
    replace_settings_file(ctx, path, tomlkit.dumps(document))


def replace_settings_file(ctx: Context, path: str, text: str) -> None:
    """Replace a settings file in one step. If the user's own file is a link, replace its target."""
    if path == ctx.home.settings:
        path = os.path.realpath(path)
    else:
        paths.refuse_links(path)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
    except OSError as error:
        raise MngrError(
            f"cannot write {path}: {error.strerror}", shell.suggest_disk_check(os.path.dirname(path))
        ) from None
    ctx.local_host.write(path, text.encode(), mode=mode)
    if os.path.dirname(path) != ctx.home.root:
        _ignore_local_settings(ctx, os.path.dirname(path))


def _ignore_local_settings(ctx: Context, settings_dir: str) -> None:
    """Let git ignore the user's own settings of a project, and the file that says so."""
    path = os.path.join(settings_dir, ".gitignore")
    if not os.path.lexists(path):
        names = (os.path.basename(paths.LOCAL_SETTINGS), ".gitignore")
        ctx.local_host.write(path, "".join(f"/{name}\n" for name in names).encode(), mode=0o644)
