"""The command `mngr tmr redo`."""

from __future__ import annotations

from mngr.base import shell
from mngr.base.errors import UsageError
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import (
    LIMIT_OPTIONS,
    NOTIFY_OPTION,
    RunProgress,
    build_parked_error,
    get_project_root,
    make_notifier,
)
from mngr.cli.runs.tmr.resume import load_limits
from mngr.cli.runs.tmr.shared import BAD_OUTCOMES, print_unanswered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.run_dir import RunDir

COMMAND = CommandSpec(
    name="tmr redo",
    summary=COMMANDS["tmr redo"][1],
    description=(
        "mngr starts the agent that made the change, and sends your message to it. When the agent has answered, mngr "
        "verifies the new version and builds the branch again. If several agents made the same change, mngr asks the "
        "first of them. If the agent does not answer, the branch stays as it is. To give the task to a new agent, use "
        "mngr tmr retry."
    ),
    arguments=(
        Argument(
            name="CHANGE",
            help="The change to revise: its id (see mngr tmr changes), a task, or a commit of the branch",
            complete="changes",
        ),
    ),
    options=(
        Option(
            flags=("-m", "--message"),
            metavar="TEXT",
            help="Send TEXT to the agent, for example what it must change (required)",
        ),
        Option(
            flags=("--run",),
            metavar="RUN",
            help="Use the run with the name RUN (default: the latest run)",
            complete="runs",
        ),
        *LIMIT_OPTIONS,
        NOTIFY_OPTION,
    ),
    examples=(("mngr tmr redo 3fa9c1 -m 'keep the old name working'", "Ask for another version of one change"),),
)


def run(cli: Cli, args: Args) -> int:
    """Send the request to the agent of a change, complete its task, and integrate again."""
    from mngr.mapreduce.journal.journal_file import read_journal
    from mngr.mapreduce.run_repo import get_own_run
    from mngr.tmr.changes.current_changes import gather_changes
    from mngr.tmr.changes.find_changes import get_changes
    from mngr.tmr.changes.integration_record import Integration, find_integration
    from mngr.tmr.pipeline import RunObserver, run_tasks
    from mngr.tmr.revise_change import request_redo, restore_unanswered

    if not (args["message"] or "").strip():
        raise UsageError(
            "mngr tmr redo needs -m",
            f"say what the agent should change: mngr tmr redo {shell.quote(args['change'])} -m 'keep the old name working'",
        )
    run_dir = get_own_run(cli.context.local_host, get_project_root(cli), args["run"], "tmr")
    limits = load_limits(run_dir, args)
    commits = (find_integration(run_dir) or Integration()).commits
    changes = get_changes(gather_changes(cli.context.local_host, run_dir).changes, args["change"], commits)
    redo = request_redo(cli.fleet, run_dir, changes, args["message"])
    slug = redo.slug
    others_note = f"; not to {', '.join(redo.other_agents)}, which made the same change" if redo.other_agents else ""
    cli.print_message(f"run {run_dir.name}: mngr sends your message for {slug} to {redo.agent}{others_note}")
    progress = RunProgress(cli, notify=make_notifier(args["notify"], run_dir), rows=read_journal(run_dir.journal))
    state = run_tasks(cli.fleet, run_dir, limits, RunObserver(on_row=progress, on_tasks_end=progress.close))
    task = state.tasks[slug]
    if task.state != "settled":
        raise build_parked_error(f"mngr tmr resume {run_dir.name}", state)
    unanswered = restore_unanswered(cli.context.local_host, run_dir)
    print_unanswered(cli, unanswered)
    return max(integrate_again(cli, run_dir), 4 if slug in unanswered or task.outcome in BAD_OUTCOMES else 0)


def integrate_again(cli: Cli, run_dir: RunDir) -> int:
    """Integrate a run again with the saved options, and return the exit code."""
    from mngr.cli.runs.tmr.integrate import compute_exit_code, integrate_run
    from mngr.tmr.integrate.integration_request import IntegrateRequest
    from mngr.tmr.run_plan import load_plan

    return compute_exit_code(integrate_run(cli, run_dir, IntegrateRequest(agent=load_plan(run_dir).integrator)))
