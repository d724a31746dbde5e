"""The command `mngr snapshot list`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="snapshot list",
    summary=COMMANDS["snapshot list"][1],
    examples=(("mngr snapshot list", "List all snapshots; the latest one comes last"),),
)


def run(cli: Cli, args: Args) -> int:
    """Show the snapshots."""
    snapshots = cli.fleet.list_snapshots()
    head = ("NAME", "AGENT", "KIND", "BRANCH", "CREATED")
    lines = [
        (snapshot.name, snapshot.agent, snapshot.kind or "?", snapshot.branch or "-", snapshot.created_at[:19])
        for snapshot in snapshots
    ]
    human = render.format_table(head, lines) if lines else "there are no snapshots"
    render.render_rows(cli, "snapshots", [snapshot.to_dict() for snapshot in snapshots], human)
    return 0
