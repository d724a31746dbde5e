"""Commands as lists of words with `{placeholders}` in them: what a template says, checked and filled."""

from __future__ import annotations

import re

from mngr.base.errors import UsageError, suggest_closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Words = list[str | list[str]]

# What each command can name beside options; `id` is what `create` printed.
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
# What each must name, one of these at least.
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
    """The commands of a provider. A list inside of one is left out when something that it names has no value."""

    def __init__(self, provider: str, settings: Mapping[str, Any]) -> None:
        self._at = f"[providers.{provider}]"
        self.commands: dict[str, Words] = {
            key: self._parse_words(key, settings[key]) for key in BUILTIN_PLACEHOLDERS if settings.get(key) is not None
        }

    def _parse_words(self, key: str, value: Any) -> Words:
        is_list = isinstance(value, list) and value and isinstance(value[0], str)
        if not is_list or not all(isinstance(word, str) or _is_group(word) for word in value):
            hint = 'write ["docker", "rm", "-f", "{name}"]: a word is a word, and no shell reads it'
            raise UsageError(f"{self._at} {key} is no list of words", hint)
        return list(value)

    def check(self) -> None:
        """UsageError for what is missing."""
        for key in _REQUIRED:
            if key not in self.commands:
                raise UsageError(f"{self._at} has no {key}", f"a template needs {', '.join(_REQUIRED)}")
        for one, other in _PAIRS:
            if one in self.commands and other not in self.commands:
                raise UsageError(f"{self._at} has {one} and no {other}", "one is of no use without the other")
        for key, needs in _REQUIRED_PLACEHOLDERS.items():
            for names in needs if key in self.commands else ():
                if not set(names) & set(self.list_placeholders(key)):
                    wanted = " or ".join(f"{{{name}}}" for name in names)
                    raise UsageError(f"{self._at} {key} does not name {wanted}", "put it where it belongs")
        if set(self.list_placeholders("destroy")) <= {"id"} and "list" not in self.commands:
            raise UsageError(
                f"{self._at} destroy names {{id}} only, which is not known of a host whose making was cut off",
                "name {name} or {tag}, or give a `list` that prints ID and TAG in each line",
            )
        if "snapshot" in self.commands and "image" not in self.list_placeholders("create"):
            raise UsageError(f"{self._at} create does not name {{image}}", "a snapshot takes its place")
        for key in self.commands:
            self._check_known(key)

    def _check_known(self, key: str) -> None:
        """A word that is almost one of ours is one that was misspelt."""
        ours = sorted({*BUILTIN_PLACEHOLDERS[key], "image"})
        for name in self.list_placeholders(key):
            near = suggest_closest(name, ours) if name not in ours else None
            if near and name not in {name for names in BUILTIN_PLACEHOLDERS.values() for name in names}:
                raise UsageError(f"{self._at} {key}: there is no {{{name}}}", near)

    def list_placeholders(self, key: str) -> list[str]:
        """The placeholders of a command."""
        flat = [w for word in self.commands.get(key, []) for w in (word if isinstance(word, list) else [word])]
        return list(dict.fromkeys(name for word in flat for name in _PLACEHOLDER.findall(word)))

    @property
    def option_names(self) -> tuple[str, ...]:
        """What `create` names and we do not give: settings, and `-b`."""
        return tuple(name for name in self.list_placeholders("create") if name not in BUILTIN_PLACEHOLDERS["create"])

    def fill_command(self, key: str, values: Mapping[str, str]) -> list[str]:
        """The words of a command; any other brace is what it is. UsageError when something has no value."""
        if key not in self.commands:  # any more: the host was made when there was one
            raise UsageError(f"{self._at} has no {key}", f"a template needs {', '.join(_REQUIRED)}")
        found: list[str] = []
        for word in self.commands[key]:
            group = word if isinstance(word, list) else [word]
            lacking = [
                name for part in group for name in _PLACEHOLDER.findall(part) if not self._has_value(key, name, values)
            ]
            if lacking and isinstance(word, list):
                continue
            if lacking:
                name = lacking[0]
                hint = f"-b {name}=…, or for all hosts: {name} = … in {self._at}"
                raise UsageError(f"{self._at} {key} names {{{name}}}, which has no value", hint)
            found += [_PLACEHOLDER.sub(lambda place: values.get(place[1], place[0]), part) for part in group]
        return found

    def _has_value(self, key: str, name: str, values: Mapping[str, str]) -> bool:
        return name in values or (name not in BUILTIN_PLACEHOLDERS[key] and name not in self.option_names)


def _is_group(word: object) -> bool:
    return isinstance(word, list) and all(isinstance(part, str) for part in word)


class OutputPattern:
    """How a program says something: by what it writes, or by its exit code."""

    def __init__(self, provider: str, key: str, value: Any) -> None:
        self._codes: list[int] = []
        self._texts: list[re.Pattern[str]] = []
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            if isinstance(one, int) and not isinstance(one, bool):
                self._codes.append(one)
                continue
            try:
                self._texts.append(re.compile(str(one), re.IGNORECASE | re.MULTILINE))
            except re.error as error:
                raise UsageError(f"[providers.{provider}] {key}: {error}", "write a regular expression") from None

    def is_match(self, said: str, code: int | None = None) -> bool:
        """Whether this is it."""
        return code in self._codes or any(text.search(said) for text in self._texts)

    def get_line(self, said: str) -> str:
        """The line that says so, else the last."""
        telling = [line for line in said.splitlines() if any(text.search(line) for text in self._texts)]
        return get_last_line("\n".join(telling) or said)


def get_last_line(said: str) -> str:
    """The last line of what a program wrote."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it does not say why"
