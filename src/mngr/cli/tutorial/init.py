"""The command `mngr tutorial init`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
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
    """Write the first files of a tutorial, and print the next steps."""
    from mngr.tutorial.writing.init import init_tutorial

    result = init_tutorial(cli.context, args["program"])
    text = "".join(f"wrote {path}\n" for path in result.written) or "everything is there already\n"
    text += f"next: run the tests in {result.tests}, and mngr tutorial check"
    render.render_item(cli, result.to_dict(), text)
    if result.missing:
        cli.print_message(f"the tests cannot run yet: {result.missing}")
    return 0
