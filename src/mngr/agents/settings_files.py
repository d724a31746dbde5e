"""`config`: read settings with their sources, and change the files they stand in."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from mngr.agents.context import Context
from mngr.base import config, paths
from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.base.model import Struct

SCOPES = ("user", "project", "local")
_PROJECT_TABLES = ("project", "tutorial")  # what these tables say is true of the project, not of its user


class SettingValue(Struct):
    """A value in effect and where it came from."""

    key: str
    value: Any
    source: str  # default | user | project | local | env | -S
    path: str | None


def list_settings(ctx: Context) -> list[SettingValue]:
    """Everything that is set, by key."""
    settings = ctx.settings
    found = [(key, settings.values[key], settings.sources[key]) for key in sorted(settings.values)]
    return [SettingValue(key=key, value=value, source=layer.source, path=layer.path) for key, value, layer in found]


def get_setting(ctx: Context, key: str) -> SettingValue:
    """One setting; NotFound when nothing sets it."""
    config.check_key(key, "config get")
    for setting in list_settings(ctx):
        if setting.key == key:
            return setting
    raise NotFound(f"{key} is not set", f"set it: mngr config set {key} VALUE")


def list_settings_paths(ctx: Context) -> dict[str, str]:
    """The settings file of every scope there is here."""
    files = {"user": ctx.home.settings}
    root = paths.find_project_root(ctx.cwd)
    if root is not None:
        files["project"] = os.path.join(root, paths.PROJECT_SETTINGS)
        files["local"] = os.path.join(root, paths.LOCAL_SETTINGS)
    return files


def get_settings_path(ctx: Context, scope: str) -> str:
    """The settings file of a scope."""
    files = list_settings_paths(ctx)
    if scope not in files:
        raise MngrError(
            f"{ctx.cwd} is in no project, so there are no {scope} settings", "go to a project, or use --user"
        )
    return files[scope]


def set_setting(ctx: Context, key: str, value: Any, scope: str | None = None) -> str:
    """Write a setting and keep the rest of its file as it is; `key+=` extends. The path of the file."""
    plain = key.removesuffix("+=")
    config.check_key(plain, "config set", value)
    path = get_settings_path(ctx, scope or ("project" if plain.split(".")[0] in _PROJECT_TABLES else "user"))
    config.read_settings_file(path)

    def change(table: Any, last: str) -> None:
        extends = key != plain
        if extends and last in table:
            table[last] = [*_check_list(plain, table[last]), *value]
        elif extends:
            table[last + "+="] = [*table.get(last + "+=", []), *value]
        else:
            table.pop(last + "+=", None)
            table[last] = value

    _change_table(ctx, path, plain, change)
    return path


def unset_setting(ctx: Context, key: str, scope: str | None = None) -> str:
    """Remove a setting from one file, the one in effect unless a scope is given. The path of the file."""
    files = list_settings_paths(ctx) if scope is None else {scope: get_settings_path(ctx, scope)}
    for of, path in reversed(files.items()):
        if _has_key(path, key):
            _change_table(ctx, path, key, _delete_key)
            if of != "project":  # by that file a project may be known
                _remove_if_empty(path)
            return path
    config.check_key(key, "config unset")
    where = files[scope] if scope else "any settings file"
    raise NotFound(f"{key} is not set in {where}", "see where values come from: mngr config list")


def _remove_if_empty(path: str) -> None:
    """Take a file away that says nothing any more, not even in a comment; a link to one stays."""
    with open(path, encoding="utf-8") as file:
        rows = [row.strip() for row in file]
    if not os.path.islink(path) and all(not row or (row[0] == "[" and row[-1] == "]") for row in rows):
        os.remove(path)


def _check_list(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{key} is no list, so += cannot extend it", f"replace it: mngr config set {key} VALUE")
    return value


def _delete_key(table: Any, last: str) -> None:
    table.pop(last, None)
    table.pop(last + "+=", None)


def _has_key(path: str, key: str) -> bool:
    document = _read_document(path)
    for part in key.split(".")[:-1]:
        document = document.get(part)
        if not isinstance(document, dict):
            return False
    last = key.rpartition(".")[2]
    return last in document or last + "+=" in document


def _read_document(path: str) -> Any:
    """The document in a file, with its comments; an empty one when there is none."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        with open(path, encoding="utf-8") as file:
            return tomlkit.parse(file.read())
    except FileNotFoundError:
        return tomlkit.document()
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise MngrError(f"cannot read {path}: {error}", "mend the file, or move it away") from None


def _change_table(ctx: Context, path: str, key: str, change: Callable[[Any, str], None]) -> None:
    """Change the table that holds `key` and replace the file in one step."""
    import tomlkit

    document = _read_document(path)
    *tables, last = key.split(".")
    table = document
    for part in tables:
        if not isinstance(table.get(part), dict):
            table[part] = tomlkit.table()
        table = table[part]
    change(table, last)
    if path == ctx.home.settings:
        ctx.home.create()
    write_settings(ctx, path, tomlkit.dumps(document))


def write_settings(ctx: Context, path: str, text: str) -> None:
    """Replace a settings file in one step; where it is a link, what it points to."""
    path = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
    except OSError as error:
        raise MngrError(f"cannot write {path}: {error.strerror}", "check the directory's permissions") from None
    ctx.local_host.write(path, text.encode(), mode=mode)
