"""Checks and fills the commands of a template, which are lists of words with `{placeholders}`."""

from __future__ import annotations

import re

from mngr.base.errors import UsageError, suggest_closest
from mngr.base.untrusted_json import as_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Words = list[str | list[str]]

# The placeholders of each command besides options. `id` is the output of `create`.
BUILTIN_PLACEHOLDERS = {
    "create": ("name", "tag", "key"),
    "exec": ("name", "tag", "id", "program", "quoted"),
    "exec_terminal": ("name", "tag", "id", "program", "quoted"),
    "list": ("key",),
    "start": ("name", "tag", "id"),
    "stop": ("name", "tag", "id"),
    "destroy": ("name", "tag", "id"),
    "snapshot": ("name", "tag", "id", "snapshot"),
    "drop_snapshot": ("snapshot",),
}
# The placeholders that each command needs: at least one of each group.
_REQUIRED_PLACEHOLDERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "create": (("tag", "name"),),
    "exec": (("id", "name", "tag"), ("program", "quoted")),
    "exec_terminal": (("id", "name", "tag"), ("program", "quoted")),
    "start": (("id", "name", "tag"),),
    "stop": (("id", "name", "tag"),),
    "destroy": (("id", "name", "tag"),),
    "snapshot": (("id", "name", "tag"),),
    "drop_snapshot": (("snapshot",),),
}
_REQUIRED = ("create", "exec", "destroy")
_PAIRS = (("start", "stop"), ("stop", "start"), ("snapshot", "drop_snapshot"), ("drop_snapshot", "snapshot"))
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


class ProviderTemplate:
    """The commands of a provider. A nested list is omitted when one of its placeholders has no value."""

    def __init__(self, provider: str, settings: Mapping[str, object]) -> None:
        self._at = f"[providers.{provider}]"
        self.commands: dict[str, Words] = {
            key: self._parse_words(key, settings[key]) for key in BUILTIN_PLACEHOLDERS if settings.get(key) is not None
        }

    def _parse_words(self, key: str, value: object) -> Words:
        """Return a command's list of words. Raise UsageError if it is no such list."""
        words = as_list(value)
        is_command = bool(words) and isinstance(words[0], str)
        if not is_command or not all(isinstance(word, str) or _is_group(word) for word in words):
            hint = 'write each word of the command as a string, for example: ["docker", "rm", "-f", "{name}"]'
            raise UsageError(f"{self._at} {key} is not a list of words", hint)
        return [word if isinstance(word, str) else [str(part) for part in as_list(word)] for word in words]

    def check(self) -> None:
        """Raise UsageError if a command or a placeholder is missing."""
        for key in _REQUIRED:
            if key not in self.commands:
                raise UsageError(f"{self._at} does not set {key}", f"set all of these keys: {', '.join(_REQUIRED)}")
        for command, other in _PAIRS:
            if command in self.commands and other not in self.commands:
                raise UsageError(f"{self._at} sets {command} but not {other}", f"also set {other}, or remove {command}")
        for key, groups in _REQUIRED_PLACEHOLDERS.items():
            for names in groups if key in self.commands else ():
                if not set(names) & set(self.list_placeholders(key)):
                    choices = " or ".join(f"{{{name}}}" for name in names)
                    raise UsageError(
                        f"the command {key} in {self._at} does not contain {choices}", f"add {choices} to the command"
                    )
        if set(self.list_placeholders("destroy")) <= {"id"} and "list" not in self.commands:
            raise UsageError(
                f"the command destroy in {self._at} contains only {{id}}, which mngr does not know if the creation was interrupted",
                "use {name} or {tag} in destroy, or set `list` to a command that prints ID and TAG on each line",
            )
        if "snapshot" in self.commands and "image" not in self.list_placeholders("create"):
            raise UsageError(
                f"the command create in {self._at} does not contain {{image}}, which a snapshot needs",
                "add {image} to create, or remove snapshot",
            )
        for key in self.commands:
            self._check_known(key)

    def _check_known(self, key: str) -> None:
        """Raise UsageError for a placeholder that looks like a misspelt built-in one."""
        builtins = sorted({*BUILTIN_PLACEHOLDERS[key], "image"})
        for name in self.list_placeholders(key):
            suggestion = suggest_closest(name, builtins) if name not in builtins else None
            if suggestion and name not in {name for names in BUILTIN_PLACEHOLDERS.values() for name in names}:
                raise UsageError(f"{self._at} {key}: there is no placeholder {{{name}}}", suggestion)

    def list_placeholders(self, key: str) -> list[str]:
        """Return the placeholders of a command."""
        parts = [part for word in self.commands.get(key, []) for part in (word if isinstance(word, list) else [word])]
        return list(dict.fromkeys(name for word in parts for name in _PLACEHOLDER.findall(word)))

    @property
    def option_names(self) -> tuple[str, ...]:
        """Return the placeholders of `create` that are no built-in ones. They are settings and options of `-b`."""
        return tuple(name for name in self.list_placeholders("create") if name not in BUILTIN_PLACEHOLDERS["create"])

    def fill_command(self, key: str, values: Mapping[str, str]) -> list[str]:
        """Return the words of a command with all placeholders filled. Raise UsageError if one has no value."""
        if key not in self.commands:  # The host was created when the command existed.
            raise UsageError(f"{self._at} does not set {key}", f"set all of these keys: {', '.join(_REQUIRED)}")
        argv: list[str] = []
        for word in self.commands[key]:
            group = word if isinstance(word, list) else [word]
            missing = [
                name for part in group for name in _PLACEHOLDER.findall(part) if not self._has_value(key, name, values)
            ]
            if missing and isinstance(word, list):
                continue
            if missing:
                name = missing[0]
                hint = f"give it for this host: -b {name}=VALUE; or for all hosts: {name} = VALUE in {self._at}"
                raise UsageError(f"the placeholder {{{name}}} of {key} in {self._at} has no value", hint)
            argv += [_PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), part) for part in group]
        return argv

    def _has_value(self, key: str, name: str, values: Mapping[str, str]) -> bool:
        return name in values or (name not in BUILTIN_PLACEHOLDERS[key] and name not in self.option_names)


def _is_group(word: object) -> bool:
    """True for a nested list of words."""
    return isinstance(word, list) and all(isinstance(part, str) for part in word)


class OutputPattern:
    """Texts and exit codes by which a program reports a condition."""

    def __init__(self, provider: str, key: str, value: object) -> None:
        self._codes: list[int] = []
        self._texts: list[re.Pattern[str]] = []
        items = value if isinstance(value, list) else [value]
        for item in items if value is not None else ():
            if isinstance(item, int) and not isinstance(item, bool):
                self._codes.append(item)
                continue
            try:
                self._texts.append(re.compile(str(item), re.IGNORECASE | re.MULTILINE))
            except re.error as error:
                raise UsageError(
                    f"[providers.{provider}] {key} is not a valid regular expression: {error}",
                    "correct the expression in the settings",
                ) from None

    def is_match(self, output: str, code: int | None = None) -> bool:
        """True when the output or the exit code matches."""
        return code in self._codes or any(text.search(output) for text in self._texts)

    def get_line(self, output: str) -> str:
        """Return the last line that matches, otherwise the last line."""
        matching = [line for line in output.splitlines() if any(text.search(line) for text in self._texts)]
        return get_last_line_as_reason("\n".join(matching) or output)


def get_last_line_as_reason(output: str) -> str:
    """Return the last line of a program's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no reason"
