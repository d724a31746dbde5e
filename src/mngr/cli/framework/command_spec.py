"""The declaration of a command. Parsing, help, completion, docs and man pages read it."""

from __future__ import annotations

from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_OPTION_KINDS = {"int": "int", "float": "length"}  # by the annotation of a field


class Option(Struct):
    """A switch, or an option with a value if it has a metavar."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    is_repeatable: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None
    kind: str = "text"  # text | int | length
    complete: str | None = None  # A source in mngr.cli.framework.completion_candidates, or files.
    field: str | None = None  # The field of a Struct that the option sets, if `make_field_option` made it.
    group: str = "Options"  # The heading in the help text below which the option stands.

    @property
    def key(self) -> str:
        """The name of the value in the parsed arguments and in `[commands.CMD]`."""
        return next(flag for flag in self.flags if flag.startswith("--"))[2:].replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """True when the option takes no value."""
        return self.metavar is None


class Argument(Struct):
    """A positional argument."""

    name: str
    help: str
    required: bool = True
    is_repeatable: bool = False
    complete: str | None = None

    @property
    def key(self) -> str:
        """The name of the value in the parsed arguments."""
        return self.name.lower()


def place_below(heading: str, *options: Option) -> tuple[Option, ...]:
    """Return the options, placed below a heading of the help text."""
    return tuple(option.replace(group=heading) for option in options)


def make_field_option(
    struct: type[Struct], field: str, *flags: str, metavar: str | None = None, complete: str | None = None
) -> Option:
    """Return the option that sets a described field. The field's declaration decides help, type, default and choices."""
    description = struct._descriptions[field]
    annotation = struct.__annotations__[field].removesuffix(" | None")
    is_repeatable = annotation.startswith(("list[", "dict["))
    return Option(
        flags=flags,
        help=description.help,
        metavar=metavar,
        is_repeatable=is_repeatable,
        choices=description.choices,
        default=None if is_repeatable else description.default,
        kind=_OPTION_KINDS.get(annotation, "text"),
        complete=complete,
        field=field,
    )


class CommandSpec(Struct):
    """A command as its module declares it."""

    name: str
    summary: str
    description: str = ""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    trailing: Argument | None = None  # The words that may follow `--`.
    examples: tuple[tuple[str, str], ...] = ()  # (command, explanation)
    formats: tuple[str, ...] = ()  # For --format, in addition to those of every command.
    can_run_without_settings: bool = False  # True for a command that helps to repair broken settings.


COMMON_OPTIONS = (
    Option(
        flags=("--format",),
        metavar="FORMAT",
        help="Set the output format: human, json, jsonl, or a template such as '{name} {labels.team}'",
        default="human",
    ),
    Option(flags=("--json",), help="Print JSON, like --format json"),
    Option(flags=("-q", "--quiet"), help="Print only data and errors"),
    Option(flags=("-v", "--verbose"), help="Print each program that mngr runs, with its exit code and its duration"),
    Option(
        flags=("--home",),
        metavar="DIR",
        help="Store mngr's files in DIR, which is called mngr's home (default: $MNGR_HOME, or ~/.mngr)",
        complete="files",
    ),
    Option(
        flags=("-S", "--set"),
        metavar="KEY=VALUE",
        is_repeatable=True,
        help="Set the setting KEY to VALUE for this command only",
    ),
    Option(flags=("-V", "--version"), help="Print the version of mngr"),
    Option(flags=("-h", "--help"), help="Print this help"),
)

NAMES_ARGUMENT = Argument(
    name="NAME",
    help="An agent's name or id; - reads names from standard input",
    is_repeatable=True,
    complete="agents",
)
TARGETS_ARGUMENT = NAMES_ARGUMENT.replace(
    help="An agent's name or id, or @HOST for a host; - reads names from standard input"
)
NAME_ARGUMENT = Argument(name="NAME", help="An agent's name or id", complete="agents")
