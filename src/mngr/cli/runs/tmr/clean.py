"""The command `mngr tmr clean`."""

from __future__ import annotations

from mngr.base.errors import PartialFailure
from mngr.base.size_format import format_count, format_size
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tmr clean",
    summary=COMMANDS["tmr clean"][1],
    description=(
        "mngr also removes the hosts that it created for the run. It keeps the run's folder with the results, "
        "receipts, transcripts and commits. You can delete this folder when you no longer need it."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(Option(flags=("--dry-run",), help="Print the number of agents and hosts without removing them"),),
    examples=(
        ("mngr tmr clean --dry-run", "Print the number of agents and hosts of the latest run"),
        ("mngr tmr clean nightly", "Move the agents of the run nightly to the trash"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Move the agents of a run to the trash and release its hosts, or count both with --dry-run."""
    from mngr.tmr.stop_retry_clean import clean_run

    run_dir = get_run(cli, args)
    result = clean_run(cli.fleet, run_dir, dry_run=args["dry_run"])
    verb = "would remove" if args["dry_run"] else "removed"
    size = format_size(result.bytes)
    hosts = f" and {format_count(len(result.hosts), 'host')}" if result.hosts else ""
    agents = format_count(len(result.agents), "agent")
    human = f"{verb} {agents}{hosts} of {run_dir.name}; its folder has {size}: {run_dir.path}"
    render.render_item(cli, {"run": run_dir.name, **result.to_dict()}, human)
    for problem in result.problems:
        cli.print_message(problem)
    return PartialFailure.exit_code if result.problems else 0
