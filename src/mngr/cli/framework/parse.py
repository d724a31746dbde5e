"""Words to values by a Command's declaration. Knows which values were given and which are defaults."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework.spec import COMMON_OPTIONS, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Args:
    """Parsed values by key; `given` holds the keys that stood on the command line, `chosen` those of settings too."""

    def __init__(self, values: dict[str, Any], given: set[str], chosen: set[str], rest: list[str] | None) -> None:
        self.values = values
        self.given = given
        self.chosen = chosen
        self.rest = rest

    def __getitem__(self, key: str) -> Any:
        return self.values[key]


def parse_words(command: CommandSpec, words: list[str], defaults: dict[str, Any] | None = None) -> Args:
    """The values of one command line; UsageError names the word that does not fit."""
    options = (*command.options, *COMMON_OPTIONS)
    by_flag = {flag: option for option in options for flag in option.flags}
    values: dict[str, Any] = {
        o.key: [] if o.is_repeatable else (o.default if o.metavar else bool(o.default)) for o in options
    }
    given: set[str] = set()
    chosen = _apply_defaults(command, values, defaults or {})
    plain: list[str] = []
    rest: list[str] | None = None
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest = queue
            break
        if word.startswith("--"):
            flag, eq, attached = word.partition("=")
            option, switched_on = _get_option(command, by_flag, flag)
            if option.is_switch:
                if eq:
                    raise UsageError(f"{flag} takes no value", _build_help_hint(command))
                _store_value(option, switched_on, values, given)
            else:
                _store_value(option, attached if eq else _take_value(command, flag, queue), values, given)
        elif word.startswith("-") and word != "-":
            _parse_short_flags(command, by_flag, word, queue, values, given)
        else:
            plain.append(word)
    if rest is not None and command.trailing_help is None:
        plain.extend(rest)
        rest = None
    _assign_arguments(command, plain, values, given, wants_all=not values["help"])
    return Args(values, given, chosen | given, rest)


def _parse_short_flags(
    command: CommandSpec,
    by_flag: dict[str, Option],
    word: str,
    queue: list[str],
    values: dict[str, Any],
    given: set[str],
) -> None:
    """`-q`, `-qv`, `-m text` and `-mtext`."""
    letters = word[1:]
    while letters:
        flag, letters = "-" + letters[0], letters[1:]
        option, _ = _get_option(command, by_flag, flag)
        if option.is_switch:
            _store_value(option, True, values, given)
        else:
            _store_value(
                option,
                letters.removeprefix("=") if letters else _take_value(command, flag, queue),
                values,
                given,
            )
            return


def _get_option(command: CommandSpec, by_flag: dict[str, Option], flag: str) -> tuple[Option, bool]:
    if flag in by_flag:
        return by_flag[flag], True
    positive = "--" + flag.removeprefix("--no-")
    if flag.startswith("--no-") and positive in by_flag and by_flag[positive].is_switch:
        return by_flag[positive], False
    hint = suggest_closest(flag, list(by_flag))
    raise UsageError(f"mngr {command.name} has no option {flag}", hint or _build_help_hint(command))


def _take_value(command: CommandSpec, flag: str, queue: list[str]) -> str:
    if not queue:
        raise UsageError(f"{flag} needs a value", _build_help_hint(command))
    return queue.pop(0)


def _store_value(option: Option, value: Any, values: dict[str, Any], given: set[str]) -> None:
    if not option.is_switch:
        value = convert_value(option, value)
    if option.is_repeatable and option.key in given:
        values[option.key] = [*values[option.key], value]
    else:  # the first one on the command line replaces what settings said
        values[option.key] = [value] if option.is_repeatable else value
    given.add(option.key)


def convert_value(option: Option, text: str) -> Any:
    """The value of `text` for this option."""
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
    """Put what settings say in place of the declared defaults; the keys they have."""
    by_key = {option.key: option for option in (*command.options, *COMMON_OPTIONS)}
    arguments = {argument.key for argument in command.arguments if not argument.required and not argument.is_repeatable}
    for raw, value in defaults.items():
        key = raw.replace("-", "_")
        if key in arguments:
            values[key] = str(value)
            continue
        if key not in by_key:
            hint = suggest_closest(key, list(by_key)) or _build_help_hint(command)
            raise UsageError(
                f"settings: mngr {command.name} has no option {raw!r} (commands.{command.name}.{raw})", hint
            )
        option = by_key[key]
        if option.is_switch:
            if not isinstance(value, bool):
                raise UsageError(f"settings: commands.{command.name}.{raw} must be true or false")
            values[key] = value
        elif option.is_repeatable:
            many = value if isinstance(value, list) else [value]
            values[key] = [convert_value(option, str(v)) for v in many]
        else:
            values[key] = convert_value(option, str(value))
    return {raw.replace("-", "_") for raw in defaults}


def _assign_arguments(
    command: CommandSpec, plain: list[str], values: dict[str, Any], given: set[str], *, wants_all: bool
) -> None:
    left = list(plain)
    for at, argument in enumerate(command.arguments):
        later = sum(1 for a in command.arguments[at + 1 :] if a.required)
        before = len(left)
        if argument.is_repeatable:
            take = max(0, len(left) - later)
            values[argument.key], left = left[:take], left[take:]
        else:
            found = left.pop(0) if len(left) > later or (left and argument.required) else None
            values[argument.key] = values.get(argument.key) if found is None else found
        if before - len(left):
            given.add(argument.key)
        elif argument.required and wants_all:
            raise UsageError(f"mngr {command.name} needs {argument.name}", _build_help_hint(command))
    if left and wants_all:
        hint = "put -- before the command to run" if command.trailing_help else _build_help_hint(command)
        raise UsageError(f"mngr {command.name} does not take {left[0]!r}", hint)


def _build_help_hint(command: CommandSpec) -> str:
    return f"see: mngr {command.name} --help"
