"""The command `mngr undestroy`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="undestroy",
    summary=COMMANDS["undestroy"][1],
    description=(
        "mngr restores the agent's id, branch, staged changes, files and conversation on the agent's old host. mngr "
        "does not start the agent; its state is STOPPED. If somebody has added commits to the branch in the meantime, "
        "the agent gets a new branch, and mngr prints the name of this branch."
    ),
    arguments=(
        Argument(
            name="NAME",
            help="The destroyed agent's name or id",
            is_repeatable=True,
            required=False,
            complete="trash",
        ),
    ),
    options=(
        Option(flags=("--as",), metavar="NAME", help="Give the restored agent the name NAME (default: its old name)"),
        Option(flags=("--on",), metavar="@HOST", help="Restore the agent on the host HOST (default: its old host)"),
        Option(flags=("--list",), help="List the agents in the trash"),
    ),
    examples=(
        ("mngr undestroy --list", "List the agents that you can restore"),
        ("mngr undestroy foo && mngr start foo", "Restore foo and start it"),
        ("mngr undestroy foo --on @box", "Restore foo on another host"),
        ("mngr undestroy a-0123456789ab --as old-foo", "Restore the agent with this id, and rename it to old-foo"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Restore agents from the trash, or list the trash."""
    if args["list"]:
        return _list_trash(cli)
    if not args["name"]:
        raise UsageError("mngr undestroy needs NAME", "list the agents in the trash: mngr undestroy --list")
    return render.render_outcomes(
        cli, cli.fleet.undestroy(read_names(args), new_name=args["as"], on=args["on"]), human=_format_outcome
    )


def _format_outcome(outcome: Outcome) -> str:
    return f"restored {outcome.name}, which is STOPPED; start it: mngr start {outcome.name}"


def _list_trash(cli: Cli) -> int:
    """Print the agents in the trash."""
    trashed_agents = cli.fleet.list_trash()
    head = ("NAME", "ID", "KIND", "BRANCH", "DESTROYED", "KEPT UNTIL")
    lines = [
        (
            trashed.name,
            trashed.id,
            trashed.kind or "?",
            trashed.branch or "-",
            trashed.destroyed_at[:19],
            trashed.expires_at[:10],
        )
        for trashed in trashed_agents
    ]
    human = render.format_table(head, lines) if lines else "the trash is empty"
    render.render_rows(cli, "trash", [trashed.to_dict() for trashed in trashed_agents], human)
    return 0
