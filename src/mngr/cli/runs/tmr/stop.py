"""`mngr tmr stop`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.spec import Command, Option
from mngr.cli.framework.table import COMMANDS
from mngr.cli.runs.tmr.shared import RUN, run_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = Command(
    name="tmr stop",
    summary=COMMANDS["tmr stop"][1],
    description="Ends the process that runs it, then stops all of its agents with all they have; tmr resume goes on another day.",
    arguments=(RUN,),
    options=(Option(flags=("--destroy",), help="put the agents in the graveyard, too"),),
    examples=(("mngr tmr stop", "the emergency stop of the latest run"),),
)


def run(cli: Cli, args: Args) -> int:
    """Stop it."""
    from mngr.tmr.control import stop

    place = run_of(cli, args)
    outcomes = stop(cli.fleet, place, destroy=args["destroy"])
    if not outcomes:
        cli.say(f"no agent of {place.name} is there to stop")
    word = "destroyed" if args["destroy"] else "stopped"
    return render.results(cli, outcomes, human=lambda outcome: f"{outcome.name} {word}")
