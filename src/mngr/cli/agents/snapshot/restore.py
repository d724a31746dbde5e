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
        "The new agent gets the files, the conversation and the options from the snapshot, and its own branch "
        "mngr/NAME. mngr runs the project's set-up command and starts the agent. mngr keeps the snapshot."
    ),
    arguments=(
        Argument(name="NAME", help="A snapshot's name", complete="snapshots"),
        Argument(
            name="ADDRESS",
            help="The new agent's name; NAME@HOST creates it on another host (default: the saved agent's name, if no "
            "other agent uses it)",
            required=False,
        ),
    ),
    options=(Option(flags=("--start",), default=True, help="Start the agent"),),
    examples=(
        ("mngr snapshot restore before-merge foo-2", "Create the agent foo-2 from the snapshot before-merge"),
        ("mngr snapshot restore before-merge foo-2@box", "Create the copy on the ssh host box"),
        (
            "mngr snapshot restore before-merge foo-2 --no-start",
            "Restore the files and the conversation, but do not start the agent",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create an agent from a snapshot."""
    agent = cli.fleet.restore_snapshot(args["name"], args["address"], start=args["start"])
    render.render_rows(
        cli, "agents", [agent.to_dict()], f"{agent.name} is {agent.state} on {agent.branch or agent.work_dir}"
    )
    return 0
