"""Parses the words of a command line by the command's declaration, and knows which values are defaults."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.base.model import Struct
from mngr.cli.framework.command_spec import COMMON_OPTIONS, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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


class _Token(Struct):
    """One word of a command line: a plain word, a switch, an option with its value, or a flag that is wrong."""

    kind: str  # word | switch | value | unknown | missing | surplus
    text: str  # the word, or the flag
    option: Option | None = None
    value: str = ""
    is_on: bool = True


class _Tokenizer:
    """Splits words into tokens up to `--`. The value of an option is never read as an option."""

    def __init__(self, options: tuple[Option, ...], words: list[str]) -> None:
        self._by_flag = {flag: option for option in options for flag in option.flags}
        self.queue = list(words)  # the words that are not read yet
        self.has_separator = False

    def __iter__(self) -> Iterator[_Token]:
        while self.queue and not self.has_separator:
            word = self.queue.pop(0)
            if word == "--":
                self.has_separator = True
            elif word.startswith("--"):
                yield self._read_long_flag(word)
            elif word.startswith("-") and word != "-":
                yield from self._read_short_flags(word[1:])
            else:
                yield _Token(kind="word", text=word)

    def _read_long_flag(self, word: str) -> _Token:
        """Read a flag such as `--quiet`, `--no-quiet`, `--name value` and `--name=value`."""
        flag, equals, attached_value = word.partition("=")
        option = self._by_flag.get(flag)
        if option is None:
            positive = self._by_flag.get("--" + flag.removeprefix("--no-")) if flag.startswith("--no-") else None
            if positive is None or not positive.is_switch:
                return _Token(kind="unknown", text=flag)
            return _Token(kind="surplus" if equals else "switch", text=flag, option=positive, is_on=False)
        if option.is_switch:
            return _Token(kind="surplus" if equals else "switch", text=flag, option=option)
        return (
            _Token(kind="value", text=flag, option=option, value=attached_value)
            if equals
            else self._read_value(flag, option)
        )

    def _read_short_flags(self, letters: str) -> Iterator[_Token]:
        """Read short flags such as `-q`, `-qv`, `-m text` and `-mtext`."""
        while letters:
            flag, letters = "-" + letters[0], letters[1:]
            option = self._by_flag.get(flag)
            if option is None:
                yield _Token(kind="unknown", text=flag)
                return
            if not option.is_switch:
                attached_value = letters.removeprefix("=")
                yield (
                    _Token(kind="value", text=flag, option=option, value=attached_value)
                    if letters
                    else self._read_value(flag, option)
                )
                return
            yield _Token(kind="switch", text=flag, option=option)

    def _read_value(self, flag: str, option: Option) -> _Token:
        return (
            _Token(kind="value", text=flag, option=option, value=self.queue.pop(0))
            if self.queue
            else _Token(kind="missing", text=flag, option=option)
        )


def scan_options(command: CommandSpec | None, words: list[str]) -> dict[str, list[str]]:
    """Return the values of the common options by key, and raise no error. A switch that is on has the value `on`."""
    found: dict[str, list[str]] = {option.key: [] for option in COMMON_OPTIONS}
    for token in _Tokenizer((*(command.options if command else ()), *COMMON_OPTIONS), words):
        if token.option is None or token.option.key not in found:
            continue
        if token.kind == "value":
            found[token.option.key].append(token.value)
        elif token.kind == "switch" and token.option.key == "json":
            found["format"].append("json" if token.is_on else "human")
        elif token.kind == "switch":
            found[token.option.key] = ["on"] if token.is_on else []
    return found


def mask_words(command: CommandSpec | None, words: list[str]) -> list[str]:
    """Return the flags of a command line, with `…` in place of every value and every other word."""
    masked: list[str] = []
    tokenizer = _Tokenizer((*(command.options if command else ()), *COMMON_OPTIONS), words)
    for token in tokenizer:
        masked += ([token.text] if token.option else []) + (["…"] if token.kind != "switch" else [])
    return masked + ["…" for _ in tokenizer.queue]


def split_words_without(command: CommandSpec, words: list[str], keys: set[str]) -> tuple[list[str], list[str]]:
    """Return a command line without the options with these keys, split before the separator `--`."""
    remaining: list[str] = []
    tokenizer = _Tokenizer((*command.options, *COMMON_OPTIONS), words)
    for token in tokenizer:
        if token.option is None or token.option.key not in keys:
            remaining += [token.text, token.value] if token.kind == "value" else [token.text]
    return remaining, (["--"] if tokenizer.has_separator else []) + tokenizer.queue


def split_leading_options(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the common options before the command, and the words from the command on."""
    tokenizer = _Tokenizer(COMMON_OPTIONS, words)
    for token in tokenizer:
        if token.kind == "word":
            index = len(words) - len(tokenizer.queue) - 1
            return words[:index], words[index:]
    index = len(words) - len(tokenizer.queue) - tokenizer.has_separator
    return words[:index], words[index:]


def parse_words(command: CommandSpec, words: list[str], defaults: Mapping[str, object] | None = None) -> Args:
    """Return the values of one command line; raise UsageError for a word that does not fit."""
    parser = _Parser(command, words)
    parser.apply_settings(defaults or {})
    from_settings = {key.replace("-", "_") for key in defaults or {}}
    plain_words = parser.parse_options()
    rest = parser.tokenizer.queue if parser.tokenizer.has_separator else None
    if rest is not None and command.trailing is None:
        plain_words.extend(rest)
        rest = None
    parser.assign_arguments(plain_words)
    return Args(parser.values, parser.given, from_settings | parser.given, rest)


class _Parser:
    """The state of parsing one command line: the tokens that are left, and the values so far."""

    def __init__(self, command: CommandSpec, words: list[str]) -> None:
        self.command = command
        self.options = (*command.options, *COMMON_OPTIONS)
        self.tokenizer = _Tokenizer(self.options, words)
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
                raise UsageError(f"the setting {setting} is wrong: mngr {command.name} has no option {raw_key!r}", hint)

    def parse_options(self) -> list[str]:
        """Store the options up to `--` and return the plain words between them."""
        plain_words: list[str] = []
        for token in self.tokenizer:
            if token.kind == "word":
                plain_words.append(token.text)
            elif token.option is None:
                flags = [flag for option in self.options for flag in option.flags]
                hint = suggest_closest(token.text, flags) or self.help_hint
                raise UsageError(f"mngr {self.command.name} has no option {token.text}", hint)
            elif token.kind == "missing":
                raise UsageError(f"{token.text} needs a value: {token.text} {token.option.metavar}", self.help_hint)
            elif token.kind == "surplus":
                raise UsageError(
                    f"{token.text} takes no value", f"write {token.text} alone; see: mngr {self.command.name} --help"
                )
            elif token.kind == "switch":
                self._store_switch(token.option, token.is_on)
            else:
                self._store_text(token.option, token.value)
        return plain_words

    def _store_switch(self, option: Option, is_on: bool) -> None:
        self.values[option.key] = is_on
        self.given.add(option.key)
        if option.key == "json":
            self.values["format"] = "json" if is_on else "human"
            self.given.add("format")

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
            hint = (
                f"if it belongs to {command.trailing.name}, put -- before it: mngr {command.name} … -- {remaining[0]}"
                if command.trailing
                else self.help_hint
            )
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
            raise UsageError(
                f"the setting {setting} must be true or false", f"for example: mngr config set {setting} true"
            )
        return value
    if option.is_repeatable:
        items = value if isinstance(value, list) else [value]
        return [convert_value(option, str(item)) for item in items]
    return convert_value(option, str(value))


def convert_value(option: Option, text: str) -> Any:
    """Return the value of `text` for this option; raise UsageError if the text does not fit."""
    flag = option.flags[-1]
    if option.choices and text not in option.choices:
        hint = suggest_closest(text, list(option.choices)) or "use one of: " + ", ".join(option.choices)
        raise UsageError(f"{flag} cannot be {text!r}", hint)
    if option.kind == "int":
        if not text.isascii() or not text.isdigit():
            raise UsageError(f"{flag} needs a whole number, not {text!r}", f"for example: {flag} 3")
        return int(text)
    if option.kind == "length":
        from mngr.base.time_format import parse_duration

        try:
            return parse_duration(text)
        except UsageError as error:
            raise UsageError(f"{flag}: {error.message}", error.hint) from None
    return text
