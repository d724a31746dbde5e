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
        "mngr asks the agent's process to end, and kills the process if it has not ended after the time in --grace. "
        "mngr keeps the work dir, the branch and the conversation. With @HOST, mngr stops all agents on the host, and "
        "then the host if its provider can stop hosts. A stopped host stays stopped until you run mngr start."
    ),
    arguments=(TARGETS_ARGUMENT,),
    options=(
        Option(
            flags=("--grace",),
            metavar="TIME",
            kind="length",
            help="Kill the agent's process if it has not ended after TIME (default: the setting stop.grace, which is "
            "2s)",
        ),
    ),
    examples=(
        ("mngr stop foo", "Stop one agent"),
        ("mngr list --ids --label team=red | mngr stop -", "Stop all agents that have the label team=red"),
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
