"""The command `mngr stop`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import TARGETS_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="stop",
    summary=COMMANDS["stop"][1],
    description=(
        "mngr asks the process to end, and kills it after the grace period. Work dir, branch and conversation stay. "
        "@HOST stops all agents on a host and then the host, if its provider can stop hosts. "
        "Only mngr start starts a stopped host again."
    ),
    arguments=(TARGETS_ARGUMENT,),
    options=(
        Option(
            flags=("--grace",),
            metavar="TIME",
            kind="length",
            help="Kill the process if it has not ended after TIME (default: the setting stop.grace, 2s)",
        ),
    ),
    examples=(
        ("mngr stop foo", "Stop one agent"),
        ("mngr list --ids --label team=red | mngr stop -", "Stop all agents with a label"),
        ("mngr stop @box.docker", "Stop a container and the agents in it"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Stop the agents."""
    return render.render_outcomes(cli, cli.fleet.stop(read_names(args), grace=args["grace"]), human=_format_outcome)


def _format_outcome(outcome: Outcome) -> str:
    previous_state = outcome.extra.get("was")
    return (
        f"{outcome.name} had ended already ({previous_state})"
        if previous_state in ("DONE", "FAILED", "STOPPED")
        else f"stopped {outcome.name}"
    )
