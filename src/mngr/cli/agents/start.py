"""`mngr start`."""

from __future__ import annotations

from mngr.agents.inspect.targets import LIVE
from mngr.cli.framework import render
from mngr.cli.framework.run import names_of
from mngr.cli.framework.spec import TARGETS, Command
from mngr.cli.framework.table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = Command(
    name="start",
    summary=COMMANDS["start"][1],
    description=(
        "Continues the conversation where the kind can; a command is run again from the start. Also after a reboot. An\n"
        "agent's host is started first if it is stopped; @HOST starts the host alone."
    ),
    arguments=(TARGETS,),
    examples=(
        ("mngr start foo", "bring foo back"),
        ("mngr list --ids --state STOPPED | mngr start -", "bring all back"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Start the agents."""
    return render.results(cli, cli.fleet.start(names_of(args)), human=_line)


def _line(outcome: Outcome) -> str:
    return (
        f"{outcome.name} was running already"
        if outcome.extra.get("was") in LIVE
        else f"started {outcome.name}"
    )
