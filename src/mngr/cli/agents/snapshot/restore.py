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
        "A new agent with the work tree, conversation and settings of the snapshot, on a branch mngr/NAME of its own,\n"
        "with the project's set-up run again. It is started, as clone starts one. The snapshot stays."
    ),
    arguments=(
        Argument(name="NAME", help="a snapshot's name", complete="snapshots"),
        Argument(
            name="ADDRESS",
            help="what to call the agent (default: as the one it was taken of, if that is free), and @HOST for another host",
            required=False,
        ),
    ),
    options=(Option(flags=("--start",), default=True, help="start it; --no-start leaves it STOPPED"),),
    examples=(
        ("mngr snapshot restore before-merge foo-2", "go on from the snapshot as foo-2"),
        ("mngr snapshot restore before-merge foo-2@box", "the same on the ssh host box"),
        ("mngr snapshot restore before-merge foo-2 --no-start", "only its work tree and conversation"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create an agent from a snapshot."""
    agent = cli.fleet.restore_snapshot(args["name"], args["address"], start=args["start"])
    render.render_rows(
        cli, "agents", [agent.to_dict()], f"{agent.name} is {agent.state} on {agent.branch or agent.work_dir}"
    )
    return 0
