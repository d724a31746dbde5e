"""Settings in layers. Every value knows the layer that set it."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError, UsageError, suggest_closest
from mngr.base.model import Struct
from mngr.base.paths import LOCAL_SETTINGS, PROJECT_SETTINGS, is_owned_by_user, read_plain_file
from mngr.base.time_format import parse_duration
from mngr.base.trust.setting_trust_levels import TRUSTED, USER_ONLY, classify_setting
from mngr.base.untrusted_json import as_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

# The keys that a settings file may contain, each with its type and purpose. `*` is a name that the user chooses.
SCHEMA: dict[str, tuple[type, str]] = {
    "project.setup": (str, "the command that makes a fresh copy of the project runnable"),
    "project.carry": (list, "glob patterns of ignored files that an agent needs"),
    "project.lock": (list, "more files whose changes make mngr run the set-up again"),
    "project.program": (str, "the command-line program that the project builds and tests"),
    "project.pytest": (str, "the command that runs the project's tests"),
    "project.lint": (str, "a command that must succeed on the integrated branch, in addition to the tests"),
    "tutorial.file": (str, "the tutorial script"),
    "tutorial.tests": (str, "the directory of the tests that cite the tutorial"),
    "tutorial.timeout": (str, "the time limit for a trial run of a block and of the blocks before it"),
    "tmr.merge_tool": (
        str,
        "the command that merges one file when git cannot, with {base} {ours} {theirs} {out} {path}; mergiraf if it is installed",
    ),
    "tmr.*": (object, "the default of an option of `tmr run`"),
    "policy.*": (object, "the project's rules for the files that an agent may change"),
    "tmux.source": (str, "your own tmux configuration file, which tmux reads after mngr's"),
    "stop.grace": (str, "the time that an agent has to end before mngr kills it"),
    "trash.keep": (str, "how long the trash keeps destroyed agents"),
    "pull.max_bytes": (
        int,
        "the size limit of one pull in bytes (10 GiB); mngr reads it only from your own settings",
    ),
    "pull.max_file_bytes": (
        int,
        "the size limit of one pulled file in bytes (1 GiB); mngr reads it only from your own settings",
    ),
    "pull.max_files": (
        int,
        "the largest number of files in one pull; mngr reads it only from your own settings",
    ),
    "pull.timeout": (str, "the time limit of one pull; mngr reads it only from your own settings"),
    "sandbox.show": (
        list,
        "more paths of this machine that a sandboxed agent may read; mngr reads it only from your own settings",
    ),
    "sandbox.setup": (
        str,
        "run `project.setup` in a sandbox: on, off, or auto (where this machine can); mngr reads it only from your own settings",
    ),
    "usage.prices": (str, "a file with prices of models, in addition to the built-in ones"),
    "notify.channels": (
        list,
        "where `mngr notify` sends notifications: desktop, ntfy, webhook, command",
    ),
    "notify.filter": (
        str,
        "the notifications to send, as an expression such as 'event == permission' (default: an agent needs you or has failed, "
        "a run has ended or has an alarm)",
    ),
    "notify.ntfy_server": (str, "the URL of the ntfy server (default: https://ntfy.sh)"),
    "notify.ntfy_topic": (str, "the topic on the ntfy server"),
    "notify.ntfy_token_file": (str, "a file with the access token for the ntfy server"),
    "notify.webhook_url": (str, "the URL to which the channel webhook posts each notification as JSON"),
    "notify.command": (
        str,
        "the shell command that the channel command runs for each notification; its first argument, $1, is the text",
    ),
    "notify.timeout": (str, "the time limit for one attempt to send a notification (default: 10s)"),
    "notify.max_age": (
        str,
        "how old a change may be that `mngr notify --follow` sends after it was not running (default: 1d)",
    ),
    "yolo.anywhere": (
        bool,
        "allow --yolo also without a sandbox or a container; mngr reads it only from your own settings",
    ),
    "agents.*.*": (object, "the settings of an agent kind: parent, program, args, env, carry, login"),
    "commands.*.*": (object, "the default of an option of a command"),
    "templates.*.*": (object, "options of `create` that `-t NAME` sets"),
    "providers.*.*": (object, "the settings of a provider"),
}
_MAX_SETTINGS_BYTES = 256 * 1024  # of a project's file, which can come from a stranger
_MAX_DOTS = 1000  # The TOML parser's time grows with the square of the number of parts in a key.
_MAX_DEPTH = 50  # tables in tables
_DURATION_KEYS = ("stop.grace", "trash.keep", "pull.timeout", "tutorial.timeout", "notify.timeout", "notify.max_age")
DEFAULTS: dict[str, Any] = {
    "stop": {"grace": "2s"},
    "trash": {"keep": "30d"},
    "pull": {
        "max_bytes": 10 * 1024**3,
        "max_file_bytes": 1024**3,
        "max_files": 100_000,
        "timeout": "1h",
    },
    "tutorial": {"timeout": "30s"},
}


class SettingsLayer(Struct):
    """One source of settings."""

    source: str  # default | user | project | local | user for this project | env | -S
    path: str | None = None
    data: Mapping[str, object]

    @property
    def is_from_project(self) -> bool:
        """True for a file of the project, which can come from a stranger."""
        return self.source in ("project", "local")


class Settings:
    """All layers merged. For each value it also holds the layer that set the value.

    A project's file cannot set what only the user may set: those settings are in `ignored`. Before anybody reads a
    setting of the class `trusted` that a project set, `check_trust` runs, and raises an error if the user does not trust it.
    """

    def __init__(self, layers: list[SettingsLayer]) -> None:
        self.layers = layers
        self.values: dict[str, Any] = {}
        self.sources: dict[str, SettingsLayer] = {}
        self.ignored: dict[str, SettingsLayer] = {}
        self.check_trust: Callable[[], None] | None = None
        for layer in layers:
            for key, value in flatten(layer.data):
                plain_key = key.removesuffix("+=").rstrip()
                if layer.is_from_project and classify_setting(plain_key) == USER_ONLY:
                    self.ignored[plain_key] = layer
                    continue
                if plain_key != key:
                    value = [*as_list(self.values.get(plain_key)), *as_list(value)]
                self.values[plain_key] = value
                self.sources[plain_key] = layer

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key such as `a.b.c`, or `default` when no layer sets it."""
        self._check_trusted_key(key)
        return self.values.get(key, default)

    def get_table(self, prefix: str) -> dict[str, Any]:
        """Return all values below `prefix`. Their keys are relative to the prefix."""
        key_prefix = prefix + "."
        keys = [key for key in self.values if key.startswith(key_prefix)]
        for key in keys:
            self._check_trusted_key(key)
        return {key[len(key_prefix) :]: self.values[key] for key in keys}

    def list_trusted_values(self) -> dict[str, object]:
        """Return the values that count only if the user trusts the project."""
        return {key: self.values[key] for key, layer in self.sources.items() if self._needs_trust(key, layer)}

    def list_ignored_values(self) -> list[tuple[str, Any]]:
        """Return the settings in the project's files that do not count."""
        return [
            (key, value)
            for layer in self.layers
            if layer.is_from_project
            for key, value in flatten(layer.data)
            if key in self.ignored
        ]

    def _needs_trust(self, key: str, layer: SettingsLayer) -> bool:
        return layer.is_from_project and classify_setting(key) == TRUSTED

    def _check_trusted_key(self, key: str) -> None:
        layer = self.sources.get(key)
        if layer is not None and self.check_trust is not None and self._needs_trust(key, layer):
            self.check_trust()

    def get_source(self, key: str) -> str:
        """Return the layer that set a value, followed by the path of its file if it has one."""
        layer = self.sources[key]
        return f"{layer.source} ({layer.path})" if layer.path else layer.source


def load_settings(
    home_settings: str,
    project_root: str | None,
    assignments: list[str],
    environ: dict[str, str],
    project: tuple[str, bytes] | None = None,
) -> Settings:
    """Return the merged settings of all layers that exist.

    `project` is for a project on another machine: the address and the text of its settings file.
    The TOML parser is imported only when there is a file to parse.
    """
    layers = [SettingsLayer(source="default", data=DEFAULTS)]
    user_settings = read_settings_file(home_settings) or {}
    projects = as_object(user_settings.pop("projects", {}))
    if user_settings:
        layers.append(SettingsLayer(source="user", path=home_settings, data=user_settings))
    if project_root is not None:
        layers += _read_project_layers(project_root, home_settings)
    if project is not None:
        place, content = project
        if len(content) > _MAX_SETTINGS_BYTES:
            raise MngrError(
                f"the settings in {place} are larger than {_MAX_SETTINGS_BYTES // 1024} KB",
                f"make the file smaller: {PROJECT_SETTINGS}",
            )
        layers.append(SettingsLayer(source="project", path=place, data=parse_settings(place, content)))
    if project_root is not None and projects:
        layers += _select_user_layers(home_settings, project_root, projects)
    for name, value in environ.items():
        if name.startswith("MNGR__"):
            key = name[6:].lower().replace("__", ".")
            extends = value.startswith("+=")
            parsed = parse_value(value.removeprefix("+="), find_setting_type(key) or object)
            layers.append(_make_layer("env", name, key + "+=" if extends else key, parsed))
    for text in assignments:
        layers.append(_make_layer("-S", "-S", *parse_assignment(text)))
    return Settings(layers)


def _read_project_layers(root: str, home_settings: str) -> list[SettingsLayer]:
    """Return the layers of the project's own files. Files of another user are not read, nor the user's own file."""
    layers = []
    for source, name in (("project", PROJECT_SETTINGS), ("local", LOCAL_SETTINGS)):
        path = os.path.join(root, name)
        if os.path.lexists(path) and not _is_users_own(path, home_settings) and is_owned_by_user(path, root):
            data = read_project_settings_file(path)
            if data is not None:
                layers.append(SettingsLayer(source=source, path=path, data=data))
    return layers


def _is_users_own(path: str, home_settings: str) -> bool:
    """True when the project is the directory that contains mngr's home, so that the path is the user's own file."""
    home = os.path.dirname(home_settings)
    project_dir = os.path.dirname(os.path.dirname(path))
    return os.path.relpath(path, project_dir) == os.path.relpath(
        home_settings, os.path.dirname(home)
    ) and os.path.realpath(project_dir) == os.path.realpath(os.path.dirname(home))


def _select_user_layers(home_settings: str, root: str, projects: dict[str, object]) -> list[SettingsLayer]:
    """Return what the user's file says about this project, in `[projects."PATH"]`."""
    from mngr.base.trust.project_trust import find_repository

    directories = {os.path.realpath(root), os.path.dirname(find_repository(root))}
    return [
        SettingsLayer(source="user for this project", path=home_settings, data=as_object(data))
        for path, data in projects.items()
        if os.path.realpath(os.path.expanduser(path)) in directories
    ]


def _make_layer(source: str, origin: str, key: str, value: Any) -> SettingsLayer:
    """Return a layer with one value. Raise UsageError or MngrError if the schema rejects it."""
    check_key(key.removesuffix("+="), origin, value)
    return SettingsLayer(source=source, data={key: value})


def read_settings_file(path: str) -> dict[str, object] | None:
    """Return the checked contents of a settings file, or None when the file does not exist."""
    if not os.path.exists(path):
        return None
    try:
        with open(path, "rb") as file:
            return parse_settings(path, file.read())
    except OSError as error:
        raise MngrError(f"cannot read {path}: {error.strerror}", f"check its permissions: ls -l {path}") from None


def read_project_settings_file(path: str) -> dict[str, object] | None:
    """Return the checked contents of a project's settings file, or None when it does not exist."""
    text = read_project_settings_text(path)
    return None if text is None else parse_settings(path, text)


def read_project_settings_text(path: str) -> bytes | None:
    """Return a project's settings file, or None when it does not exist. Raise MngrError for a link or a special file."""
    try:
        return read_plain_file(path, _MAX_SETTINGS_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MngrError(f"cannot read {path}: {error.strerror}", f"check its permissions: ls -l {path}") from None


def parse_settings(path: str, text: bytes) -> dict[str, object]:
    """Return the settings in a TOML text. Raise MngrError if the text or a key is invalid."""
    try:
        return _parse_settings(path, text)
    except RecursionError:
        raise MngrError(
            f"{path} is nested too deeply", f"correct the file, or rename it: mv {path} {path}.old"
        ) from None


def _parse_settings(path: str, text: bytes) -> dict[str, object]:
    import tomllib

    if any(line.count(b".") > _MAX_DOTS for line in text.splitlines()):
        raise MngrError(f"{path} has a line with more than {_MAX_DOTS} dots", "write a long list on several lines")
    try:
        data = tomllib.loads(text.decode())
    except tomllib.TOMLDecodeError as error:
        raise MngrError(
            f"{path} is not valid TOML: {error}", f"correct the file, or rename it: mv {path} {path}.old"
        ) from None
    except UnicodeDecodeError as error:
        raise MngrError(
            f"{path} is not UTF-8: {error}", f"correct the file, or rename it: mv {path} {path}.old"
        ) from None
    projects = data.get("projects", {})
    if not isinstance(projects, dict) or any(not isinstance(table, dict) for table in projects.values()):
        raise MngrError(
            f"{path}: each entry of `projects` must be a table", 'for example: [projects."~/shop".commands.create]'
        )
    tables = [{key: value for key, value in data.items() if key != "projects"}, *projects.values()]
    for table in tables:
        for key, value in flatten(table):
            if key.count(".") > _MAX_DEPTH:
                raise RecursionError
            check_key(key.removesuffix("+=").rstrip(), path, value)
    return data


def flatten(data: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Return the leaves of nested tables as pairs of `a.b.c` and value. Empty tables are omitted."""
    leaves: list[tuple[str, object]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            leaves.extend(flatten(value, f"{prefix}{key}."))
        else:
            leaves.append((f"{prefix}{key}", value))
    return leaves


def find_setting_type(key: str) -> type | None:
    """Return the type that a setting's value must have, or None when there is no such setting."""
    parts = key.split(".")
    for known, (kind, _) in SCHEMA.items():
        pattern = known.split(".")
        if len(parts) < len(pattern) or (len(parts) > len(pattern) and pattern[-1] != "*"):
            continue
        if all(part and pattern_part in ("*", part) for pattern_part, part in zip(pattern, parts, strict=False)):
            return kind
    return None


def check_key(key: str, origin: str, value: Any = None) -> str:
    """Return `key` if the schema accepts it and its value; otherwise raise an error with a hint.

    The error is a UsageError if the user has just typed the key, and a plain MngrError if it comes from a file.
    """
    error_class = UsageError if origin in _COMMAND_LINE_SOURCES else MngrError
    if not key.isprintable():
        raise error_class(
            f"{origin}: the setting {key!a} has a character that cannot be printed",
            "use only letters, digits and punctuation in the names of settings",
        )
    kind = find_setting_type(key)
    if kind is None:
        hint = suggest_closest(key, list(SCHEMA)) or "see the settings and their values: mngr config list"
        raise error_class(f"{origin}: there is no setting {key!r}", hint)
    if value is not None and not isinstance(value, kind):
        hint = f"for example: mngr config set {key} {_EXAMPLE_VALUES[kind]}"
        if error_class is MngrError:
            hint = f"correct the value in {origin}"
        raise error_class(f"{origin}: {key} must be {_TYPE_NAMES[kind]}, not {value!r}", hint)
    if value is not None and key in _DURATION_KEYS:
        try:
            parse_duration(str(value))
        except UsageError as error:
            raise error_class(f"{origin}: {key}: {error}", error.hint) from None
    return key


_COMMAND_LINE_SOURCES = ("-S", "config get", "config set", "config unset")


_TYPE_NAMES: dict[type, str] = {
    bool: "true or false",
    str: "text",
    int: "a whole number",
    list: "a list",
    object: "a value",
}
_EXAMPLE_VALUES: dict[type, str] = {bool: "true", str: "TEXT", int: "10", list: '\'["A", "B"]\'', object: "VALUE"}


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return the key and value of `key=value` or `key+=value`, as given to -S and `config set`."""
    key, equals, value = text.partition("=")
    name = key.strip().removesuffix("+").strip()
    if not equals or not name:
        raise UsageError(f"{text!r} is not KEY=VALUE", "for example: -S project.setup='uv sync'")
    parsed = parse_value(value, find_setting_type(name) or object)
    return (name + "+=", as_list(parsed)) if key.strip().endswith("+") else (name, parsed)


def parse_value(text: str, kind: type = object) -> Any:
    """Return `text` as a TOML value if it is one of this type, otherwise the text itself.

    With `kind` list, a single item becomes a list of one item.
    """
    import tomllib

    try:
        table = tomllib.loads(f"v = {text}")
    except tomllib.TOMLDecodeError:
        table = {}
    value = table["v"] if len(table) == 1 and isinstance(table["v"], kind) else text
    return as_list(value) if kind is list else value


def as_list(value: Any) -> list[Any]:
    """Return `value` if it is a list, an empty list for None, and otherwise a list with this one value."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
