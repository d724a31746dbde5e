"""The command `mngr clone`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="clone",
    summary=COMMANDS["clone"][1],
    description=(
        "The new agent has the same files, uncommitted ones included, the same conversation, variables and labels, and a\n"
        "branch mngr/NEW of its own at the same commit. Ignored files come from the project's set-up. It is started."
    ),
    arguments=(
        Argument(name="AGENT", help="an agent's name or id", complete="agents"),
        Argument(
            name="NEW",
            help="the new one's name (default: AGENT-2, AGENT-3, …), NAME@HOST, or @HOST for another host",
            required=False,
        ),
    ),
    options=(Option(flags=("--start",), default=True, help="start it; --no-start leaves it STOPPED"),),
    examples=(
        ("mngr clone foo foo-b", "try a second way from where foo is now"),
        ("mngr clone foo foo-b@box", "the same on the ssh host box"),
        ("mngr clone foo foo-b --no-start", "only its work tree and conversation"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create a second agent from the state of the first."""
    agent = cli.fleet.clone(args["agent"], args["new"], start=args["start"])
    render.render_rows(
        cli, "agents", [agent.to_dict()], f"{agent.name} is {agent.state} on {agent.branch or agent.work_dir}"
    )
    return 0
