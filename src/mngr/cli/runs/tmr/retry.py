"""The command `mngr tmr retry`."""

from __future__ import annotations

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option, place_below
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import LIMIT_OPTIONS, NOTIFY_OPTION, RunProgress, get_project_root, make_notifier
from mngr.cli.runs.tmr.resume import load_limits
from mngr.cli.runs.tmr.shared import complete_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tmr retry",
    summary=COMMANDS["tmr retry"][1],
    description=(
        "Each task gets a new agent. Without TASK, mngr retries all tasks whose result is blocked, failed, refuted, "
        "flaky or unverified."
    ),
    arguments=(
        Argument(
            name="TASK", help="The id of a test, or a task's short name (slug)", is_repeatable=True, required=False
        ),
    ),
    options=(
        Option(flags=("--blocked",), help="Retry only tasks whose agent reported that it is blocked"),
        Option(
            flags=("--run",),
            metavar="RUN",
            help="Use the run with the name RUN (default: the latest run)",
            complete="runs",
        ),
        Option(flags=("-m", "--message"), metavar="HINT", help="Add this hint to the prompt of the new agents"),
        *place_below(
            "Agents",
            Option(
                flags=("--agent",),
                metavar="KIND",
                help="Use agents of the kind KIND, for example claude (default: the kind of the task's earlier agent)",
                complete="kinds",
            ),
            Option(
                flags=("--agent-arg",),
                metavar="WORD",
                is_repeatable=True,
                help="Pass the argument WORD to the agent's program, instead of the earlier arguments",
            ),
        ),
        *LIMIT_OPTIONS,
        NOTIFY_OPTION,
    ),
    examples=(
        ("mngr tmr retry --blocked --agent claude", "Let Claude Code retry all blocked tasks"),
        ("mngr tmr retry", "Retry all unsuccessful tasks"),
        (
            "mngr tmr retry tests/test_x.py::test_y -m 'the clock is UTC' --agent claude",
            "Retry one task with a hint",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Queue tasks again and continue the run."""
    from mngr.mapreduce.journal.journal_file import read_journal
    from mngr.mapreduce.run_repo import get_own_run
    from mngr.tmr.stop_retry_clean import RETRYABLE_OUTCOMES, retry_tasks

    run_dir = get_own_run(cli.context.local_host, get_project_root(cli), args["run"], "tmr")
    limits = load_limits(run_dir, args)
    if args["agent"] is not None:
        cli.context.get_kind(args["agent"])
    if args["blocked"] and args["task"]:
        raise UsageError(
            "--blocked and TASK cannot be combined", "leave out --blocked, or leave out TASK to retry all blocked tasks"
        )
    outcomes = ("blocked",) if args["blocked"] else RETRYABLE_OUTCOMES
    slugs = retry_tasks(
        run_dir,
        args["task"] or [],
        outcomes=outcomes,
        hint=args["message"] or "",
        agent=args["agent"],
        args=args["agent_arg"] or (),
    )
    if not slugs:
        raise MngrError(
            f"the run {run_dir.name} has no {'blocked' if args['blocked'] else 'unsuccessful'} tasks",
            f"name the tasks to retry: mngr tmr retry TASK --run {run_dir.name}",
        )
    cli.print_message(f"run {run_dir.name}: retrying {len(slugs)} {'task' if len(slugs) == 1 else 'tasks'}")
    progress = RunProgress(cli, notify=make_notifier(args["notify"], run_dir), rows=read_journal(run_dir.journal))
    return complete_run(cli, run_dir, limits, progress)
