"""What a command looks like, declared once: parsing, help, completion, docs and man pages read it."""

from __future__ import annotations

from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Option(Struct):
    """A flag, or an option with a value when it has a metavar."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    is_repeatable: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None
    kind: str = "text"  # text | int | length
    complete: str | None = None  # a source in mngr.cli.framework.completion_candidates, or files

    @property
    def key(self) -> str:
        """The name its value has in the parsed arguments and in `[commands.CMD]`."""
        return next(f for f in self.flags if f.startswith("--"))[2:].replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """Whether it stands alone."""
        return self.metavar is None


class Argument(Struct):
    """A word that is not an option."""

    name: str
    help: str
    required: bool = True
    is_repeatable: bool = False
    complete: str | None = None

    @property
    def key(self) -> str:
        """The name its value has in the parsed arguments."""
        return self.name.lower()


class CommandSpec(Struct):
    """A command as declared by its module."""

    name: str
    summary: str
    description: str = ""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    trailing_help: str | None = None  # what may follow `--`
    examples: tuple[tuple[str, str], ...] = ()  # (command, what it does)
    formats: tuple[str, ...] = ()  # for --format, beside those that every command has
    can_run_without_settings: bool = False  # it helps to mend broken settings, so they do not stop it


COMMON_OPTIONS = (
    Option(
        flags=("--format",),
        metavar="FORMAT",
        help="human, json, jsonl, or a template such as '{name} {labels.team}'",
        default="human",
    ),
    Option(flags=("-q", "--quiet"), help="say nothing but data and errors"),
    Option(flags=("-v", "--verbose"), help="say which programs are run, how they end and how long they take"),
    Option(
        flags=("--home",),
        metavar="DIR",
        help="where mngr keeps its files (default: MNGR_HOME, else ~/.mngr)",
        complete="files",
    ),
    Option(
        flags=("-S", "--set"),
        metavar="KEY=VALUE",
        is_repeatable=True,
        help="a setting, for this command only",
    ),
    Option(flags=("-h", "--help"), help="this help"),
)

ACTIVITY_OPTION = Option(
    flags=("--activity",),
    metavar="WHAT",
    help="what keeps it from being idle: output (the default), input, process; several with commas",
)
NAMES_ARGUMENT = Argument(
    name="NAME",
    help="an agent's name or id; - reads names from standard input",
    is_repeatable=True,
    complete="agents",
)
TARGETS_ARGUMENT = NAMES_ARGUMENT.replace(help="an agent's name or id, or @HOST; - reads them from standard input")
NAME_ARGUMENT = Argument(name="NAME", help="an agent's name or id", complete="agents")
