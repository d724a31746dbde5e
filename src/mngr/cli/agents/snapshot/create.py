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
        "A snapshot contains the agent's commits, its staged, uncommitted and untracked files, its conversation and "
        "its options. It does not contain ignored files. The agent can continue to run while mngr saves it.\n"
        "With @HOST, mngr saves a host without its agents, if its provider supports snapshots. To create a new host "
        "from this snapshot, run mngr create NAME@.PROVIDER -b snapshot=NAME."
    ),
    arguments=(
        Argument(name="AGENT", help="An agent's name or id, or @HOST", complete="agents"),
        Argument(name="NAME", help="The new snapshot's name (default: the agent's name and the time)", required=False),
    ),
    examples=(
        ("mngr snapshot create foo before-merge", "Save foo's current state"),
        ("mngr snapshot create @box.docker warm", "Save a container with all programs that are installed in it"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Save the agent's state as a snapshot."""
    snapshot = cli.fleet.create_snapshot(args["agent"], args["name"])
    if snapshot.was_running:
        cli.print_message(f"{snapshot.agent} was running while mngr read its files")
    render.render_rows(cli, "snapshots", [snapshot.to_dict()], f"{snapshot.name} is a snapshot of {snapshot.agent}")
    return 0
