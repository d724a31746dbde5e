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
        "The process is asked to end; what still runs after the grace time is killed. Work dir, branch and conversation\n"
        "stay. @HOST stops a host of a provider that can do that, and all agents on it; nothing but start starts it again."
    ),
    arguments=(TARGETS_ARGUMENT,),
    options=(
        Option(
            flags=("--grace",),
            metavar="TIME",
            kind="length",
            help="how long it may take to end (default: stop.grace, 2s)",
        ),
    ),
    examples=(
        ("mngr stop foo", "stop one"),
        ("mngr list --ids --label team=red | mngr stop -", "stop many"),
        ("mngr stop @box.docker", "stop a container and the agents in it"),
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
