"""The command `mngr tutorial install-command`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tutorial install-command",
    summary=COMMANDS["tutorial install-command"][1],
    description=(
        "The slash command lets an agent write the missing tests of a tutorial. For Claude Code, mngr writes it to "
        ".claude/commands of the project; for Codex, to the prompts in your CODEX_HOME. "
        "Its name is /sync-tutorial-to-e2e-tests, and in Codex /prompts:sync-tutorial-to-e2e-tests."
    ),
    arguments=(Argument(name="AGENT", help="claude or codex (default: both)", required=False, is_repeatable=True),),
    examples=(("mngr tutorial install-command claude", "Install it for everybody who works on this project"),),
)


def run(cli: Cli, args: Args) -> int:
    """Write the slash command for the agents."""
    from mngr.tutorial.writing.slash_command import install_command

    result = install_command(cli.context, args["agent"] or [])
    render.render_item(cli, result.to_dict(), "\n".join(f"wrote {path}" for path in result.paths))
    return 0
