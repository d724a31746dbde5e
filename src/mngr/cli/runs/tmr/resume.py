"""The command `mngr tmr resume`."""

from __future__ import annotations

from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import (
    CHANGED_ISOLATION_OPTION,
    LIMIT_OPTIONS,
    NOTIFY_OPTION,
    RunProgress,
    make_notifier,
    merge_limits,
)
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, change_isolation, complete_run, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import RunLimits
    from mngr.mapreduce.run_dir import RunDir

COMMAND = CommandSpec(
    name="tmr resume",
    summary=COMMANDS["tmr resume"][1],
    description=(
        "Agents that are still running continue. mngr starts agents for the tasks that have none, and does not repeat "
        "finished tasks. The run keeps its limits unless you give new ones. If the run is still in progress, mngr "
        "prints an error."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(CHANGED_ISOLATION_OPTION, *LIMIT_OPTIONS, NOTIFY_OPTION),
    examples=(
        ("mngr tmr resume", "Continue the latest run"),
        ("mngr tmr resume nightly --budget 20", "Continue with a larger budget"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Continue an interrupted run."""
    from mngr.mapreduce.journal.journal_file import read_journal

    run_dir = get_run(cli, args, "tmr")
    change_isolation(run_dir, args["isolation"])
    cli.print_message(f"run {run_dir.name}")
    limits = load_limits(run_dir, args)
    progress = RunProgress(cli, notify=make_notifier(args["notify"], run_dir), rows=read_journal(run_dir.journal))
    return complete_run(cli, run_dir, limits, progress)


def load_limits(run_dir: RunDir, args: Args) -> RunLimits:
    """Return the saved limits of a run, replaced by those given now."""
    from mngr.tmr.run_plan import load_plan

    return merge_limits(args, load_plan(run_dir).limits)
