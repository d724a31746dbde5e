"""`mngr tmr resume`."""

from __future__ import annotations

from mngr.cli.framework.spec import Command
from mngr.cli.framework.table import COMMANDS
from mngr.cli.runs.shared import BOUNDS, NOTIFY, Progress, keep_limits
from mngr.cli.runs.tmr.shared import RUN, finish, run_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import Limits
    from mngr.mapreduce.run_dir import RunDir

COMMAND = Command(
    name="tmr resume",
    summary=COMMANDS["tmr resume"][1],
    description=(
        "Takes up agents that run, launches those that are missing, and repeats nothing that is settled. The limits are those\n"
        "that the run began with, unless others are given here: more money, more time. A run that goes on already is left alone."
    ),
    arguments=(RUN,),
    options=(NOTIFY, *BOUNDS),
    examples=(
        ("mngr tmr resume", "go on with the latest run"),
        ("mngr tmr resume nightly --budget 20", "with more money"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Go on."""
    from mngr.mapreduce.journal import read_journal

    place = run_of(cli, args, "tmr")
    cli.say(f"run {place.name}")
    limits = kept_limits(place, args)
    say = Progress(cli, notify=args["notify"], rows=read_journal(place.journal))
    return finish(cli, place, limits, say)


def kept_limits(place: RunDir, args: Args) -> Limits:
    """What the run began with, and what is given now."""
    from mngr.tmr.plan import load_plan

    return keep_limits(args, load_plan(place).limits)
