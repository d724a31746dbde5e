"""`mngr start`."""

from __future__ import annotations

from mngr.cli.run import names_of
from mngr.cli.spec import TARGETS, Command
from mngr.cli.table import COMMANDS
from mngr.ops.targets import LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.parse import Args
    from mngr.cli.run import Cli
    from mngr.model import Outcome

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
    return cli.results(cli.fleet.start(names_of(args)), human=_line)


def _line(outcome: Outcome) -> str:
    return (
        f"{outcome.name} was running already"
        if outcome.extra.get("was") in LIVE
        else f"started {outcome.name}"
    )
