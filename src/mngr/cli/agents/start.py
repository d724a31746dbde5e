"""The command `mngr start`."""

from __future__ import annotations

from mngr.agents.inspect.for_each_agent import LIVE_STATES
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import TARGETS_ARGUMENT, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="start",
    summary=COMMANDS["start"][1],
    description=(
        "A coding agent continues its conversation, even after a reboot. An agent of the kind command runs its "
        "command again from the start. If the agent's host is stopped, mngr starts the host first. With @HOST, mngr "
        "starts only the host."
    ),
    arguments=(TARGETS_ARGUMENT,),
    examples=(
        ("mngr start foo", "Start foo"),
        ("mngr list --ids --state STOPPED | mngr start -", "Start all stopped agents"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Start the agents."""
    return render.render_outcomes(cli, cli.fleet.start(read_names(args)), human=_format_outcome)


def _format_outcome(outcome: Outcome) -> str:
    return (
        f"{outcome.name} was running already" if outcome.extra.get("was") in LIVE_STATES else f"started {outcome.name}"
    )
