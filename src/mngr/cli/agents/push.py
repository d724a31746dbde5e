"""The command `mngr push`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="push",
    summary=COMMANDS["push"][1],
    description=(
        "mngr fast-forwards the agent's branch if that is possible. If not, mngr creates a merge commit in the "
        "agent's work dir. If the merge has conflicts, mngr undoes it. mngr does not merge if the agent has "
        "uncommitted changes, unless you use --stash. If you write a file and AGENT:PATH, mngr copies the file to the "
        "agent instead of merging."
    ),
    arguments=(
        Argument(
            name="WHAT",
            help="The agent to merge the current branch into, or the file or directory to copy",
            complete="agents",
        ),
        Argument(
            name="DEST",
            help="The place to which mngr copies a file, written as AGENT:PATH",
            required=False,
            complete="agents",
        ),
    ),
    options=(
        Option(
            flags=("--stash",),
            help="Stash the agent's uncommitted changes before the merge, and restore them after it",
        ),
    ),
    examples=(
        ("mngr push foo", "Merge the current branch into foo's branch"),
        ("mngr push data.csv foo:data/", "Copy a file"),
    ),
)

_RESULT_TEXTS = {
    "up_to_date": "is up to date",
    "fast_forward": "was fast-forwarded",
    "merge": "has a merge commit",
}


def run(cli: Cli, args: Args) -> int:
    """Push commits, or copy files to an agent."""
    if args["dest"] is not None:
        name, colon, path = args["dest"].partition(":")
        if not colon:
            raise UsageError(f"{args['dest']!r} is not AGENT:PATH", "for example: mngr push data.csv foo:data/")
        destination = cli.fleet.push_path(args["what"], name, path)
        render.render_agent_result(cli, name, f"copied to {destination}", path=destination)
        return 0
    result = cli.fleet.push(args["what"], stash=args["stash"])
    line = f"{result.name} {_RESULT_TEXTS[result.how]}: {result.branch} is at {result.commit[:12]}"
    render.render_rows(cli, "results", [{"ok": True, "error": None, **result.to_dict()}], None if cli.quiet else line)
    return 0
