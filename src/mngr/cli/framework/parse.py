"""Parses the words of a command line by the command's declaration, and knows which values are defaults."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework.command_spec import COMMON_OPTIONS, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Args:
    """Parsed values by key. `given` holds the keys from the command line, `chosen` also those from the settings."""

    def __init__(self, values: dict[str, Any], given: set[str], chosen: set[str], rest: list[str] | None) -> None:
        self.values = values
        self.given = given
        self.chosen = chosen
        self.rest = rest

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def collect_fields(self, command: CommandSpec) -> dict[str, Any]:
        """Return the values of the options that set a field of a Struct, by field."""
        return {option.field: self.values[option.key] for option in command.options if option.field}


def parse_words(command: CommandSpec, words: list[str], defaults: Mapping[str, object] | None = None) -> Args:
    """Return the values of one command line; raise UsageError for a word that does not fit."""
    parser = _Parser(command, words)
    parser.apply_settings(defaults or {})
    from_settings = {key.replace("-", "_") for key in defaults or {}}
    plain_words = parser.parse_options()
    rest = parser.queue if parser.has_separator else None
    if rest is not None and command.trailing_help is None:
        plain_words.extend(rest)
        rest = None
    parser.assign_arguments(plain_words)
    return Args(parser.values, parser.given, from_settings | parser.given, rest)


class _Parser:
    """The state of parsing one command line: the words left in the queue, and the values so far."""

    def __init__(self, command: CommandSpec, words: list[str]) -> None:
        self.command = command
        self.options = (*command.options, *COMMON_OPTIONS)
        self.by_flag = {flag: option for option in self.options for flag in option.flags}
        self.queue = list(words)
        self.has_separator = False
        self.values: dict[str, Any] = {option.key: _get_declared_default(option) for option in self.options}
        self.given: set[str] = set()
        self.help_hint = f"see: mngr {command.name} --help"

    def apply_settings(self, defaults: Mapping[str, object]) -> None:
        """Replace declared defaults by those of the settings."""
        command = self.command
        by_key = {option.key: option for option in self.options}
        arguments = {
            argument.key for argument in command.arguments if not argument.required and not argument.is_repeatable
        }
        for raw_key, value in defaults.items():
            key = raw_key.replace("-", "_")
            setting = f"commands.{command.name}.{raw_key}"
            if key in arguments:
                self.values[key] = str(value)
            elif key in by_key:
                self.values[key] = _convert_setting(by_key[key], setting, value)
            else:
                hint = suggest_closest(key, list(by_key)) or self.help_hint
                raise UsageError(f"settings: mngr {command.name} has no option {raw_key!r} ({setting})", hint)

    def parse_options(self) -> list[str]:
        """Store the options up to `--` and return the plain words between them."""
        plain_words: list[str] = []
        while self.queue and not self.has_separator:
            word = self.queue.pop(0)
            if word == "--":
                self.has_separator = True
            elif word.startswith("--"):
                self._parse_long_flag(word)
            elif word.startswith("-") and word != "-":
                self._parse_short_flags(word[1:])
            else:
                plain_words.append(word)
        return plain_words

    def _parse_long_flag(self, word: str) -> None:
        """Parse a flag such as `--quiet`, `--no-quiet`, `--name value` and `--name=value`."""
        flag, equals, attached_value = word.partition("=")
        option, is_on = self._get_option(flag)
        if not option.is_switch:
            self._store_text(option, attached_value if equals else self._take_value(flag))
        elif equals:
            raise UsageError(f"{flag} takes no value", self.help_hint)
        else:
            self._store_switch(option, is_on)

    def _parse_short_flags(self, letters: str) -> None:
        """Parse short flags such as `-q`, `-qv`, `-m text` and `-mtext`."""
        while letters:
            flag, letters = "-" + letters[0], letters[1:]
            option, _ = self._get_option(flag)
            if not option.is_switch:
                self._store_text(option, letters.removeprefix("=") if letters else self._take_value(flag))
                return
            self._store_switch(option, True)

    def _get_option(self, flag: str) -> tuple[Option, bool]:
        """Return the option of a flag, and False if the flag is its `--no-` form; raise UsageError if there is none."""
        if flag in self.by_flag:
            return self.by_flag[flag], True
        positive = self.by_flag.get("--" + flag.removeprefix("--no-")) if flag.startswith("--no-") else None
        if positive is not None and positive.is_switch:
            return positive, False
        hint = suggest_closest(flag, list(self.by_flag)) or self.help_hint
        raise UsageError(f"mngr {self.command.name} has no option {flag}", hint)

    def _take_value(self, flag: str) -> str:
        """Remove and return the next word as the value of a flag; raise UsageError if no word is left."""
        if not self.queue:
            raise UsageError(f"{flag} needs a value", self.help_hint)
        return self.queue.pop(0)

    def _store_switch(self, option: Option, is_on: bool) -> None:
        self.values[option.key] = is_on
        self.given.add(option.key)

    def _store_text(self, option: Option, text: str) -> None:
        """Store a value under the key of its option; a repeatable option collects its values."""
        value = convert_value(option, text)
        if option.is_repeatable:  # The first value on the command line replaces those of the settings.
            earlier = self.values[option.key] if option.key in self.given else []
            value = [*earlier, value]
        self.values[option.key] = value
        self.given.add(option.key)

    def assign_arguments(self, plain_words: list[str]) -> None:
        """Assign the plain words to the arguments; raise UsageError for missing or surplus words without --help."""
        command, remaining = self.command, list(plain_words)
        wants_all = not self.values["help"]
        for index, argument in enumerate(command.arguments):
            required_later = sum(later.required for later in command.arguments[index + 1 :])
            spare_count = max(0, len(remaining) - required_later)
            if argument.is_repeatable:
                taken = remaining[:spare_count]
                self.values[argument.key] = taken
            else:
                taken = remaining[:1] if spare_count or argument.required else []
                self.values[argument.key] = taken[0] if taken else self.values.get(argument.key)
            remaining = remaining[len(taken) :]
            if taken:
                self.given.add(argument.key)
            elif argument.required and wants_all:
                raise UsageError(f"mngr {command.name} needs {argument.name}", self.help_hint)
        if remaining and wants_all:
            hint = "put -- before the command to run" if command.trailing_help else self.help_hint
            raise UsageError(f"mngr {command.name} does not take {remaining[0]!r}", hint)


def _get_declared_default(option: Option) -> object:
    """Return the value of an option that neither the settings nor the command line give."""
    if option.is_repeatable:
        return []
    return bool(option.default) if option.is_switch else option.default


def _convert_setting(option: Option, setting: str, value: object) -> object:
    """Return the value of an option from the settings; raise UsageError if the value does not fit."""
    if option.is_switch:
        if not isinstance(value, bool):
            raise UsageError(f"settings: {setting} must be true or false")
        return value
    if option.is_repeatable:
        items = value if isinstance(value, list) else [value]
        return [convert_value(option, str(item)) for item in items]
    return convert_value(option, str(value))


def convert_value(option: Option, text: str) -> Any:
    """Return the value of `text` for this option; raise UsageError if the text does not fit."""
    flag = option.flags[-1]
    if option.choices and text not in option.choices:
        hint = suggest_closest(text, list(option.choices)) or "one of: " + ", ".join(option.choices)
        raise UsageError(f"{flag} cannot be {text!r}", hint)
    if option.kind == "int":
        if not text.isascii() or not text.isdigit():
            raise UsageError(f"{flag} wants a whole number, not {text!r}")
        return int(text)
    if option.kind == "length":
        from mngr.base.time_format import parse_duration

        try:
            return parse_duration(text)
        except UsageError as error:
            raise UsageError(f"{flag}: {error.message}", error.hint) from None
    return text
