"""`mngr hello`: a minimal example of a command."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="hello",
    summary="greet every agent",
    options=(Option(flags=("--greeting",), metavar="WORD", default="hello", help="the word to greet with"),),
    examples=(("mngr hello --greeting moin", "as they do in the north"),),
)


def run(cli: Cli, args: Args) -> int:
    """List the agents with the fleet and render the result."""
    rows = [{"name": agent.name, "greeting": args["greeting"]} for agent in cli.fleet.list().agents]
    render.render_rows(cli, "greetings", rows, "".join(f"{row['greeting']} {row['name']}\n" for row in rows))
    return 0
