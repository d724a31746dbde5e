"""The command `mngr migrate`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="migrate",
    summary=COMMANDS["migrate"][1],
    description=(
        "mngr stops the agent, recreates it on the other host with the same id, name, branch, index, files and conversation, "
        "starts it there if it was running, and removes it from the old host. Uncommitted files also move. "
        "The agent keeps its variables, except those that belong to a machine, such as PATH and HOME. "
        "The project's set-up runs again there, and creates the ignored files. On another machine, a worktree becomes a mirror.\n"
        "If a step fails, the agent stays where it was, and keeps running if it ran."
    ),
    arguments=(
        Argument(name="AGENT", help="An agent's name or id", complete="agents"),
        Argument(name="ADDRESS", help="The new place: @HOST, @HOST.PROVIDER or @.PROVIDER"),
    ),
    examples=(
        ("mngr migrate foo @box", "Move foo to the ssh host box"),
        ("mngr migrate foo @local", "Move foo to this machine"),
        ("mngr migrate foo @.docker", "Move foo to a new container"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Move the agent to another host."""
    agent = cli.fleet.migrate(args["agent"], args["address"])
    render.render_rows(cli, "agents", [agent.to_dict()], f"{agent.name} is {agent.state} on {agent.host}")
    return 0
