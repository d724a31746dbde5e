"""The command `mngr snapshot destroy`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="snapshot destroy",
    summary=COMMANDS["snapshot destroy"][1],
    description="You cannot restore a deleted snapshot. mngr keeps the agents that were created from the snapshot.",
    arguments=(Argument(name="NAME", help="A snapshot's name", is_repeatable=True, complete="snapshots"),),
    examples=(("mngr snapshot destroy before-merge", "Delete the snapshot before-merge"),),
)


def run(cli: Cli, args: Args) -> int:
    """Delete the snapshots."""
    outcomes = cli.fleet.destroy_snapshots(read_names(args))
    return render.render_outcomes(cli, outcomes, human=lambda outcome: f"deleted the snapshot {outcome.name}")
