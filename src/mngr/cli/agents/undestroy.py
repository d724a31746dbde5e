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
        "The agent has its id, branch, index, files and conversation again, on the host it was on, and is STOPPED. If its\n"
        "branch has moved on since, it gets a new branch beside it, and that is said."
    ),
    arguments=(
        Argument(
            name="NAME",
            help="a destroyed agent's name or id",
            is_repeatable=True,
            required=False,
            complete="trash",
        ),
    ),
    options=(
        Option(flags=("--as",), metavar="NAME", help="another name, if its own is taken by now"),
        Option(flags=("--on",), metavar="@HOST", help="another host than the one it was on"),
        Option(flags=("--list",), help="show what is in the trash"),
    ),
    examples=(
        ("mngr undestroy --list", "what could be brought back"),
        ("mngr undestroy foo && mngr start foo", "bring foo back and go on"),
        ("mngr undestroy foo --on @box", "bring it back on another host"),
        ("mngr undestroy a-0123456789ab --as old-foo", "one of several that were called foo"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Restore agents from the trash, or list the trash."""
    if args["list"]:
        return _list_trash(cli)
    if not args["name"]:
        raise UsageError("mngr undestroy needs NAME", "see what there is: mngr undestroy --list")
    return render.render_outcomes(
        cli, cli.fleet.undestroy(read_names(args), new_name=args["as"], on=args["on"]), human=_format_outcome
    )


def _format_outcome(outcome: Outcome) -> str:
    return f"{outcome.name} is back, STOPPED; go on with: mngr start {outcome.name}"


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
