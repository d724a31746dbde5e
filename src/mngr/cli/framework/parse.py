"""Words to values by a Command's declaration. Knows which values were given and which are defaults."""

from __future__ import annotations

from mngr.base.errors import UsageError, closest
from mngr.cli.framework.spec import COMMON, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Args:
    """Parsed values by key; `given` holds the keys that stood on the command line, `chosen` those of settings too."""

    def __init__(
        self, values: dict[str, Any], given: set[str], chosen: set[str], rest: list[str] | None
    ) -> None:
        self.values = values
        self.given = given
        self.chosen = chosen
        self.rest = rest

    def __getitem__(self, key: str) -> Any:
        return self.values[key]


def parse(command: Command, words: list[str], defaults: dict[str, Any] | None = None) -> Args:
    """The values of one command line; UsageError names the word that does not fit."""
    options = (*command.options, *COMMON)
    by_flag = {flag: option for option in options for flag in option.flags}
    values: dict[str, Any] = {
        o.key: [] if o.many else (o.default if o.metavar else bool(o.default)) for o in options
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
            option, switched_on = _find(command, by_flag, flag)
            if option.is_switch:
                if eq:
                    raise UsageError(f"{flag} takes no value", _see(command))
                _store(option, switched_on, values, given)
            else:
                _store(option, attached if eq else _next(command, flag, queue), values, given)
        elif word.startswith("-") and word != "-":
            _short(command, by_flag, word, queue, values, given)
        else:
            plain.append(word)
    if rest is not None and command.rest is None:
        plain.extend(rest)
        rest = None
    _arguments(command, plain, values, given, wants_all=not values["help"])
    return Args(values, given, chosen | given, rest)


def _short(
    command: Command,
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
        option, _ = _find(command, by_flag, flag)
        if option.is_switch:
            _store(option, True, values, given)
        else:
            _store(
                option, letters.removeprefix("=") if letters else _next(command, flag, queue), values, given
            )
            return


def _find(command: Command, by_flag: dict[str, Option], flag: str) -> tuple[Option, bool]:
    if flag in by_flag:
        return by_flag[flag], True
    positive = "--" + flag.removeprefix("--no-")
    if flag.startswith("--no-") and positive in by_flag and by_flag[positive].is_switch:
        return by_flag[positive], False
    hint = closest(flag, list(by_flag))
    raise UsageError(f"mngr {command.name} has no option {flag}", hint or _see(command))


def _next(command: Command, flag: str, queue: list[str]) -> str:
    if not queue:
        raise UsageError(f"{flag} needs a value", _see(command))
    return queue.pop(0)


def _store(option: Option, value: Any, values: dict[str, Any], given: set[str]) -> None:
    if not option.is_switch:
        value = convert(option, value)
    if option.many and option.key in given:
        values[option.key] = [*values[option.key], value]
    else:  # the first one on the command line replaces what settings said
        values[option.key] = [value] if option.many else value
    given.add(option.key)


def convert(option: Option, text: str) -> Any:
    """The value of `text` for this option."""
    flag = option.flags[-1]
    if option.choices and text not in option.choices:
        hint = closest(text, list(option.choices)) or "one of: " + ", ".join(option.choices)
        raise UsageError(f"{flag} cannot be {text!r}", hint)
    if option.kind == "int":
        if not text.isascii() or not text.isdigit():
            raise UsageError(f"{flag} wants a whole number, not {text!r}")
        return int(text)
    if option.kind == "length":
        from mngr.base.clock import parse_length

        try:
            return parse_length(text)
        except UsageError as error:
            raise UsageError(f"{flag}: {error.message}", error.hint) from None
    return text


def _apply_defaults(command: Command, values: dict[str, Any], defaults: dict[str, Any]) -> set[str]:
    """Put what settings say in place of the declared defaults; the keys they have."""
    by_key = {option.key: option for option in (*command.options, *COMMON)}
    arguments = {
        argument.key for argument in command.arguments if not argument.required and not argument.many
    }
    for raw, value in defaults.items():
        key = raw.replace("-", "_")
        if key in arguments:
            values[key] = str(value)
            continue
        if key not in by_key:
            hint = closest(key, list(by_key)) or _see(command)
            raise UsageError(
                f"settings: mngr {command.name} has no option {raw!r} (commands.{command.name}.{raw})", hint
            )
        option = by_key[key]
        if option.is_switch:
            if not isinstance(value, bool):
                raise UsageError(f"settings: commands.{command.name}.{raw} must be true or false")
            values[key] = value
        elif option.many:
            many = value if isinstance(value, list) else [value]
            values[key] = [convert(option, str(v)) for v in many]
        else:
            values[key] = convert(option, str(value))
    return {raw.replace("-", "_") for raw in defaults}


def _arguments(
    command: Command, plain: list[str], values: dict[str, Any], given: set[str], *, wants_all: bool
) -> None:
    left = list(plain)
    for at, argument in enumerate(command.arguments):
        later = sum(1 for a in command.arguments[at + 1 :] if a.required)
        before = len(left)
        if argument.many:
            take = max(0, len(left) - later)
            values[argument.key], left = left[:take], left[take:]
        else:
            found = left.pop(0) if len(left) > later or (left and argument.required) else None
            values[argument.key] = values.get(argument.key) if found is None else found
        if before - len(left):
            given.add(argument.key)
        elif argument.required and wants_all:
            raise UsageError(f"mngr {command.name} needs {argument.name}", _see(command))
    if left and wants_all:
        hint = "put -- before the command to run" if command.rest else _see(command)
        raise UsageError(f"mngr {command.name} does not take {left[0]!r}", hint)


def _see(command: Command) -> str:
    return f"see: mngr {command.name} --help"
