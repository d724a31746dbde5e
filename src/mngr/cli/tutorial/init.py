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
        "mngr writes a tutorial script with one block and a test that cites this block. It adds the paths of both "
        "files to the project's settings. mngr does not change existing files. The test uses the fixture e2e, so mngr "
        "must be installed in the same environment as pytest."
    ),
    options=(
        Option(
            flags=("--program",),
            metavar="NAME",
            help="Write a tutorial about the program NAME (default: the setting project.program, or the program that the "
            "project installs)",
        ),
    ),
    examples=(("mngr tutorial init --program git", "Create a tutorial for the program git"),),
)


def run(cli: Cli, args: Args) -> int:
    """Write the first files of a tutorial, and print the next steps."""
    from mngr.tutorial.writing.write_example import init_tutorial

    result = init_tutorial(cli.context, args["program"])
    text = "".join(f"wrote {path}\n" for path in result.written) or "all files exist already\n"
    text += f"next: pytest {result.tests}; mngr tutorial check"
    render.render_item(cli, result.to_dict(), text)
    return 0
