"""The command `mngr tmr stop`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tmr stop",
    summary=COMMANDS["tmr stop"][1],
    description=(
        "mngr ends the run's process and stops all its agents. The agents keep their work. mngr tmr resume can "
        "continue the run later."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(Option(flags=("--destroy",), help="Also move the agents to the trash"),),
    examples=(("mngr tmr stop", "Stop the latest run and its agents"),),
)


def run(cli: Cli, args: Args) -> int:
    """Stop a run, and stop or destroy its agents."""
    from mngr.tmr.stop_retry_clean import stop_run

    run_dir = get_run(cli, args)
    outcomes = stop_run(cli.fleet, run_dir, destroy=args["destroy"])
    if not outcomes:
        cli.print_message(f"the run {run_dir.name} has no running agents")
    verb = "destroyed" if args["destroy"] else "stopped"
    return render.render_outcomes(cli, outcomes, human=lambda outcome: f"{outcome.name} {verb}")
