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
        "mngr also releases the hosts that it created for the run. The run's folder stays, with results, receipts, "
        "transcripts and commits; delete the folder yourself when you no longer need it."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(Option(flags=("--dry-run",), help="Count the agents and hosts, and change nothing"),),
    examples=(
        ("mngr tmr clean --dry-run", "Count the agents and hosts of the latest run"),
        ("mngr tmr clean nightly", "Clean up after the run nightly"),
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
