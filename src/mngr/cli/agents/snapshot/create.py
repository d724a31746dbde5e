"""The command `mngr snapshot create`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="snapshot create",
    summary=COMMANDS["snapshot create"][1],
    description=(
        "Keeps commits, index, uncommitted and untracked files, conversation and record; ignored files are not kept.\n"
        "A running agent goes on running: its files are read meanwhile. @HOST keeps a host of a provider that can do that,\n"
        "without its agents: mngr create NAME@.PROVIDER -b snapshot=NAME makes a new host from it."
    ),
    arguments=(
        Argument(name="AGENT", help="an agent's name or id, or @HOST", complete="agents"),
        Argument(name="NAME", help="what to call the snapshot (default: the agent and the time)", required=False),
    ),
    examples=(
        ("mngr snapshot create foo before-merge", "keep foo as it is now"),
        ("mngr snapshot create @box.docker warm", "keep what is installed in a container"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Save the agent's state as a snapshot."""
    snapshot = cli.fleet.create_snapshot(args["agent"], args["name"])
    if snapshot.was_running:
        cli.print_message(f"{snapshot.agent} was running while its files were read")
    render.render_rows(cli, "snapshots", [snapshot.to_dict()], f"{snapshot.name} is a snapshot of {snapshot.agent}")
    return 0
