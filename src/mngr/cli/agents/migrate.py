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
        "mngr stops the agent and creates it again on the other host with the same id, name, branch, staged changes, "
        "files and conversation. Uncommitted files also move. If the agent was running, mngr starts it on the other "
        "host. Then mngr removes it from the old host. The agent keeps its environment variables, except variables "
        "that belong to a machine, such as PATH and HOME. mngr does not move ignored files. It runs the project's "
        "set-up command on the other host, which creates them. On another machine, a git worktree becomes a separate "
        "git repository (a mirror).\n"
        "If a step fails, the agent stays on the old host. If it was running, it continues to run."
    ),
    arguments=(
        Argument(name="AGENT", help="An agent's name or id", complete="agents"),
        Argument(name="ADDRESS", help="The new host: @HOST, @HOST.PROVIDER, or @.PROVIDER to create a host"),
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
