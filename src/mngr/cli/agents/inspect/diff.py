"""The command `mngr diff`."""

from __future__ import annotations

import sys

from mngr.base.errors import UsageError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import NAME_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

_HEADER_COLOUR = "1"
_LINE_COLOURS = {"@": "36", "+": "32", "-": "31"}

COMMAND = CommandSpec(
    name="diff",
    summary=COMMANDS["diff"][1],
    description="The diff contains committed, uncommitted and new files. It does not contain ignored files.",
    arguments=(NAME_ARGUMENT,),
    options=(
        Option(flags=("--stat",), help="Print the number of changed lines per file"),
        Option(flags=("--name-only",), help="Print the names of changed files only"),
        Option(flags=("--committed",), help="Show only committed changes"),
    ),
    examples=(
        ("mngr diff foo", "Show everything that foo changed"),
        ("mngr diff foo --committed | git apply", "Apply foo's commits to your working tree"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the diff, on a terminal without control characters and in mngr's own colours.

    git's colours could not be told from those in the agent's files, which can hide lines.
    """
    on_terminal = sys.stdout.isatty() and cli.format == "human"
    options = [flag for flag, key in (("--stat", "stat"), ("--name-only", "name_only")) if args[key]]
    if len(options) > 1:
        raise UsageError("--stat and --name-only cannot be combined", "leave out one of them")
    text = cli.fleet.diff(args["name"], committed=args["committed"], options=tuple(options))
    if cli.format != "human":
        render.render_agent_result(cli, args["name"], diff=text.decode("utf-8", "replace"))
    elif on_terminal:
        shown = terminal_text.strip_controls(text.decode("utf-8", "replace"))
        has_hunks = not options and terminal_text.is_coloured(sys.stdout)
        cli.print_data(colour_diff(shown) if has_hunks else shown)
    else:
        sys.stdout.buffer.write(text)
    return 0


def colour_diff(text: str) -> str:
    """Return a diff with its headers, hunks, added and removed lines in colour."""
    lines: list[str] = []
    is_header = True
    for line in text.split("\n"):
        if line.startswith("diff "):
            is_header = True
        elif line.startswith("@@"):
            is_header = False
        colour = _HEADER_COLOUR if is_header else _LINE_COLOURS.get(line[:1])
        lines.append(f"\x1b[{colour}m{line}\x1b[0m" if colour and line else line)
    return "\n".join(lines)
