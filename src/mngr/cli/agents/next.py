"""The command `mngr next`."""

from __future__ import annotations

from mngr.cli.agents.connect import CONNECT_COMMAND, connect_terminal
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="next",
    summary=COMMANDS["next"][1],
    description="An agent waits for you if it has finished its turn, asks a question or asks for permission.",
    options=(
        Option(flags=("--print",), help="Print the agent's name instead of attaching to the agent"),
        CONNECT_COMMAND,
    ),
    examples=(
        ("mngr next", "Attach to the agent that has waited longest"),
        ("mngr next --print", "Print its name"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Attach to the agent that has waited longest, or print its name."""
    agent = cli.fleet.get_next_waiting()
    if args["print"]:
        cli.print_data(agent.name)
        return 0
    return connect_terminal(cli, agent.name, args["connect_command"])
