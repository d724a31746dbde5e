"""The command `mngr limit`."""

from __future__ import annotations

from mngr.base.clock import format_duration, parse_duration
from mngr.cli.framework import render
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names
from mngr.cli.framework.spec import ACTIVITY_OPTION, NAMES_ARGUMENT, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.base.model import Outcome
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="limit",
    summary=COMMANDS["limit"][1],
    description=(
        "What counts as activity can be chosen: output (something was written to or typed into its terminal), input (a key\n"
        "of yours or a message), process (its processes used processor time), or several with commas. A stopped agent keeps\n"
        "everything and can be started again; a host that mngr can start again stops with its last agent that has a limit.\n"
        "Without options the limits are shown."
    ),
    arguments=(NAMES_ARGUMENT,),
    options=(
        Option(
            flags=("--idle",),
            metavar="TIME",
            help="stop after so long without activity; none takes the limit away",
        ),
        Option(
            flags=("--lifetime",),
            metavar="TIME",
            help="stop so long after it was made; none takes the limit away",
        ),
        ACTIVITY_OPTION,
    ),
    examples=(
        ("mngr limit foo --idle 30m", "stop foo when it has been idle for half an hour"),
        ("mngr limit foo --idle 2h --activity output,process", "a silent computation is no idleness"),
        ("mngr limit foo --idle none", "no limit"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Set or show the limits of agents."""
    changes: dict[str, Any] = {
        key: None if args[flag] == "none" else parse_duration(args[flag])
        for key, flag in (("idle_timeout", "idle"), ("lifetime", "lifetime"))
        if args[flag] is not None
    }
    if args["activity"] is not None:
        changes["activity"] = args["activity"]
    return render.render_outcomes(cli, cli.fleet.limit(read_names(args), changes), human=_format_outcome)


def _format_outcome(outcome: Outcome) -> str:
    parts = [
        f"{key} {format_duration(outcome.extra[field])}"
        for key, field in (("idle", "idle_timeout"), ("lifetime", "lifetime"))
        if outcome.extra[field]
    ]
    if outcome.extra["idle_timeout"] and outcome.extra["activity"] != "output":
        parts.append(f"activity is {outcome.extra['activity']}")
    return f"{outcome.name}: " + (", ".join(parts) or "no limits")
