"""The command `mngr snapshot restore`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="snapshot restore",
    summary=COMMANDS["snapshot restore"][1],
    description=(
        "The new agent has the files, the conversation and the options of the snapshot, and its own branch mngr/NAME. "
        "mngr runs the project's set-up again and starts the agent. The snapshot stays."
    ),
    arguments=(
        Argument(name="NAME", help="A snapshot's name", complete="snapshots"),
        Argument(
            name="ADDRESS",
            help="The agent's name, or NAME@HOST for another host (default: the name of the saved agent, if it is free)",
            required=False,
        ),
    ),
    options=(Option(flags=("--start",), default=True, help="Start the agent"),),
    examples=(
        ("mngr snapshot restore before-merge foo-2", "Continue from the snapshot as foo-2"),
        ("mngr snapshot restore before-merge foo-2@box", "Do the same on the ssh host box"),
        ("mngr snapshot restore before-merge foo-2 --no-start", "Restore the files and the conversation only"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create an agent from a snapshot."""
    agent = cli.fleet.restore_snapshot(args["name"], args["address"], start=args["start"])
    render.render_rows(
        cli, "agents", [agent.to_dict()], f"{agent.name} is {agent.state} on {agent.branch or agent.work_dir}"
    )
    return 0
