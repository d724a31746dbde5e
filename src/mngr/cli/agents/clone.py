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
        "The new agent gets a copy of all files, including uncommitted files, and the same conversation, environment "
        "variables and labels. It works on its own branch mngr/NEW, which starts at the same commit. mngr does not "
        "copy ignored files. It runs the project's set-up command again, which creates them."
    ),
    arguments=(
        Argument(name="AGENT", help="The name or id of the agent to copy", complete="agents"),
        Argument(
            name="NEW",
            help="The new agent's name; NAME@HOST or @HOST creates it on another host (default: AGENT-2, AGENT-3, …)",
            required=False,
        ),
    ),
    options=(Option(flags=("--start",), default=True, help="Start the new agent"),),
    examples=(
        ("mngr clone foo foo-b", "Try a second solution from foo's current state"),
        ("mngr clone foo foo-b@box", "Create the copy on the ssh host box"),
        ("mngr clone foo foo-b --no-start", "Copy the files and the conversation, but do not start the new agent"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create a second agent from the state of the first."""
    agent = cli.fleet.clone(args["agent"], args["new"], start=args["start"])
    render.render_rows(
        cli, "agents", [agent.to_dict()], f"{agent.name} is {agent.state} on {agent.branch or agent.work_dir}"
    )
    return 0
