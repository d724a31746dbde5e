"""The command `mngr diff`."""

from __future__ import annotations

import re
import sys

from mngr.base.errors import UsageError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import NAME_ARGUMENT, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="diff",
    summary=COMMANDS["diff"][1],
    description="Committed, uncommitted and new files together; ignored files are left out.",
    arguments=(NAME_ARGUMENT,),
    options=(
        Option(flags=("--stat",), help="how many lines per file"),
        Option(flags=("--name-only",), help="the files only"),
        Option(flags=("--committed",), help="only what is committed"),
    ),
    examples=(
        ("mngr diff foo", "everything foo did"),
        ("mngr diff foo --committed | git apply", "take it over by hand"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the diff, with colours on a terminal but without other control characters."""
    on_terminal = sys.stdout.isatty() and cli.format == "human"
    options = [flag for flag, key in (("--stat", "stat"), ("--name-only", "name_only")) if args[key]]
    if len(options) > 1:
        raise UsageError("--stat and --name-only exclude each other", "leave one of them out")
    if on_terminal and terminal_text.is_coloured(sys.stdout):
        options.append("--color=always")
    text = cli.fleet.diff(args["name"], committed=args["committed"], options=tuple(options))
    if cli.format != "human":
        render.render_agent_result(cli, args["name"], diff=text.decode("utf-8", "replace"))
    elif on_terminal:
        cli.print_data(_strip_controls(text.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(text)
    return 0


def _strip_controls(text: str) -> str:
    """Return the text with its colours, but without other control characters."""
    parts = re.split(r"(\x1b\[[0-9;]*m)", text)
    return "".join(part if index % 2 else terminal_text.strip_controls(part) for index, part in enumerate(parts))
