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
        "The agent is stopped, made on the other host with the same id, name, branch, index, files, uncommitted ones\n"
        "included, and conversation, and started there if it ran; then it is taken away where it was. Its variables stay,\n"
        "but PATH, HOME and the like are those of the new host; ignored files come from the project's set-up. On another\n"
        "machine a worktree becomes a mirror. If something fails, the agent is where it was, and runs if it ran."
    ),
    arguments=(
        Argument(name="AGENT", help="an agent's name or id", complete="agents"),
        Argument(name="ADDRESS", help="@HOST, @HOST.PROVIDER or @.PROVIDER"),
    ),
    examples=(
        ("mngr migrate foo @box", "go on with foo on the ssh host box"),
        ("mngr migrate foo @local", "bring foo to this machine"),
        ("mngr migrate foo @.docker", "give foo a container of its own"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Move the agent to another host."""
    agent = cli.fleet.migrate(args["agent"], args["address"])
    render.render_rows(cli, "agents", [agent.to_dict()], f"{agent.name} is {agent.state} on {agent.host}")
    return 0
