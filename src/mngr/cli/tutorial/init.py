"""`mngr tutorial init`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tutorial init",
    summary=COMMANDS["tutorial init"][1],
    description=(
        "Writes a script of one block, a test that cites it, and where they are into the project's settings. What is there\n"
        "already stays as it is. Says what is missing where the project's own pytest does not know the fixture e2e."
    ),
    options=(
        Option(
            flags=("--program",),
            metavar="NAME",
            help="what the tutorial is about (default: the setting project.program, else what the project installs)",
        ),
    ),
    examples=(("mngr tutorial init --program git", "begin a tutorial of git"),),
)


def run(cli: Cli, args: Args) -> int:
    """Write, and say what is missing."""
    from mngr.tutorial.writing.init import init_tutorial

    begun = init_tutorial(cli.context, args["program"])
    said = "".join(f"wrote {path}\n" for path in begun.written) or "everything is there already\n"
    said += f"next: run the tests in {begun.tests}, and mngr tutorial check"
    render.render_item(cli, begun.to_dict(), said)
    if begun.missing:
        cli.print_message(f"the tests cannot run yet: {begun.missing}")
    return 0
