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
        "The slash command tells a coding agent to write the missing tests of a tutorial. For Claude Code, mngr "
        "writes the command to the project's directory .claude/commands, and its name is /sync-tutorial-to-e2e-tests. "
        "For Codex, mngr writes the command to the directory prompts in your CODEX_HOME, and its name is "
        "/prompts:sync-tutorial-to-e2e-tests."
    ),
    arguments=(
        Argument(
            name="AGENT", help="The coding agent: claude or codex (default: both)", required=False, is_repeatable=True
        ),
    ),
    examples=(
        (
            "mngr tutorial install-command claude",
            "Install the slash command for everybody who works on this project with Claude Code",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Write the slash command for the agents."""
    from mngr.tutorial.writing.slash_command import install_command

    result = install_command(cli.context, args["agent"] or [])
    render.render_item(cli, result.to_dict(), "\n".join(f"wrote {path}" for path in result.paths))
    return 0
