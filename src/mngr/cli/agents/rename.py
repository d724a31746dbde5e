"""The command `mngr rename`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="rename",
    summary=COMMANDS["rename"][1],
    description="The agent keeps its id, its branch and its work dir.",
    arguments=(
        Argument(name="NAME", help="An agent's name or id", complete="agents"),
        Argument(name="NEW", help="The new name"),
    ),
    examples=(("mngr rename foo parser-fix", "Rename foo to parser-fix"),),
)


def run(cli: Cli, args: Args) -> int:
    """Rename the agent."""
    agent = cli.fleet.rename(args["name"], args["new"])
    render.render_rows(cli, "agents", [agent.to_dict()], f"{args['name']} is now {agent.name}")
    return 0
