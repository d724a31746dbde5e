"""Parses the words of a command line by the command's declaration, and knows which values are defaults."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework.spec import COMMON_OPTIONS, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
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


def parse_words(command: CommandSpec, words: list[str], defaults: dict[str, Any] | None = None) -> Args:
    """Return the values of one command line; raise UsageError for a word that does not fit."""
    options = (*command.options, *COMMON_OPTIONS)
    by_flag = {flag: option for option in options for flag in option.flags}
    values: dict[str, Any] = {
        o.key: [] if o.is_repeatable else (o.default if o.metavar else bool(o.default)) for o in options
    }
    given_keys: set[str] = set()
    chosen = _apply_defaults(command, values, defaults or {})
    plain_words: list[str] = []
    rest: list[str] | None = None
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest = queue
            break
        if word.startswith("--"):
            flag, equals, attached_value = word.partition("=")
            option, switched_on = _get_option(command, by_flag, flag)
            if option.is_switch:
                if equals:
                    raise UsageError(f"{flag} takes no value", _build_help_hint(command))
                _store_value(option, switched_on, values, given_keys)
            else:
                _store_value(
                    option, attached_value if equals else _take_value(command, flag, queue), values, given_keys
                )
        elif word.startswith("-") and word != "-":
            _parse_short_flags(command, by_flag, word, queue, values, given_keys)
        else:
            plain_words.append(word)
    if rest is not None and command.trailing_help is None:
        plain_words.extend(rest)
        rest = None
    _assign_arguments(command, plain_words, values, given_keys, wants_all=not values["help"])
    return Args(values, given_keys, chosen | given_keys, rest)


def _parse_short_flags(
    command: CommandSpec,
    by_flag: dict[str, Option],
    word: str,
    queue: list[str],
    values: dict[str, Any],
    given_keys: set[str],
) -> None:
    """Parse short flags such as `-q`, `-qv`, `-m text` and `-mtext`."""
    letters = word[1:]
    while letters:
        flag, letters = "-" + letters[0], letters[1:]
        option, _ = _get_option(command, by_flag, flag)
        if option.is_switch:
            _store_value(option, True, values, given_keys)
        else:
            _store_value(
                option,
                letters.removeprefix("=") if letters else _take_value(command, flag, queue),
                values,
                given_keys,
            )
            return


def _get_option(command: CommandSpec, by_flag: dict[str, Option], flag: str) -> tuple[Option, bool]:
    """Return the option of a flag, and False if the flag is its `--no-` form; raise UsageError if there is none."""
    if flag in by_flag:
        return by_flag[flag], True
    positive = "--" + flag.removeprefix("--no-")
    if flag.startswith("--no-") and positive in by_flag and by_flag[positive].is_switch:
        return by_flag[positive], False
    hint = suggest_closest(flag, list(by_flag))
    raise UsageError(f"mngr {command.name} has no option {flag}", hint or _build_help_hint(command))


def _take_value(command: CommandSpec, flag: str, queue: list[str]) -> str:
    """Remove and return the next word as the value of a flag; raise UsageError if no word is left."""
    if not queue:
        raise UsageError(f"{flag} needs a value", _build_help_hint(command))
    return queue.pop(0)


def _store_value(option: Option, value: Any, values: dict[str, Any], given_keys: set[str]) -> None:
    """Store a value under the key of its option; a repeatable option collects its values."""
    if not option.is_switch:
        value = convert_value(option, value)
    if option.is_repeatable and option.key in given_keys:
        values[option.key] = [*values[option.key], value]
    else:  # The first value on the command line replaces those of the settings.
        values[option.key] = [value] if option.is_repeatable else value
    given_keys.add(option.key)


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
        from mngr.base.clock import parse_duration

        try:
            return parse_duration(text)
        except UsageError as error:
            raise UsageError(f"{flag}: {error.message}", error.hint) from None
    return text


def _apply_defaults(command: CommandSpec, values: dict[str, Any], defaults: dict[str, Any]) -> set[str]:
    """Replace declared defaults by those of the settings, and return the keys that the settings have."""
    by_key = {option.key: option for option in (*command.options, *COMMON_OPTIONS)}
    arguments = {argument.key for argument in command.arguments if not argument.required and not argument.is_repeatable}
    for raw_key, value in defaults.items():
        key = raw_key.replace("-", "_")
        if key in arguments:
            values[key] = str(value)
            continue
        if key not in by_key:
            hint = suggest_closest(key, list(by_key)) or _build_help_hint(command)
            raise UsageError(
                f"settings: mngr {command.name} has no option {raw_key!r} (commands.{command.name}.{raw_key})", hint
            )
        option = by_key[key]
        if option.is_switch:
            if not isinstance(value, bool):
                raise UsageError(f"settings: commands.{command.name}.{raw_key} must be true or false")
            values[key] = value
        elif option.is_repeatable:
            items = value if isinstance(value, list) else [value]
            values[key] = [convert_value(option, str(item)) for item in items]
        else:
            values[key] = convert_value(option, str(value))
    return {raw_key.replace("-", "_") for raw_key in defaults}


def _assign_arguments(
    command: CommandSpec, plain_words: list[str], values: dict[str, Any], given_keys: set[str], *, wants_all: bool
) -> None:
    """Assign the plain words to the arguments; raise UsageError for missing or surplus words."""
    remaining = list(plain_words)
    for index, argument in enumerate(command.arguments):
        required_later = sum(1 for later_argument in command.arguments[index + 1 :] if later_argument.required)
        count_before = len(remaining)
        if argument.is_repeatable:
            take_count = max(0, len(remaining) - required_later)
            values[argument.key], remaining = remaining[:take_count], remaining[take_count:]
        else:
            word = remaining.pop(0) if len(remaining) > required_later or (remaining and argument.required) else None
            values[argument.key] = values.get(argument.key) if word is None else word
        if count_before - len(remaining):
            given_keys.add(argument.key)
        elif argument.required and wants_all:
            raise UsageError(f"mngr {command.name} needs {argument.name}", _build_help_hint(command))
    if remaining and wants_all:
        hint = "put -- before the command to run" if command.trailing_help else _build_help_hint(command)
        raise UsageError(f"mngr {command.name} does not take {remaining[0]!r}", hint)


def _build_help_hint(command: CommandSpec) -> str:
    return f"see: mngr {command.name} --help"
