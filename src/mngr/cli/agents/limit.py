"""The command `mngr limit`."""

from __future__ import annotations

from mngr.agents.create.spec import AgentSpec
from mngr.agents.lifecycle.limit import NO_LIMIT, LimitChanges
from mngr.base.time_format import format_duration, parse_duration
from mngr.base.untrusted_json import find_number
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import NAMES_ARGUMENT, CommandSpec, Option, make_field_option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="limit",
    summary=COMMANDS["limit"][1],
    description=(
        "A stopped agent keeps everything, and you can start it again. "
        "A host that mngr can start again stops with its last agent that has a limit. "
        "Without options, mngr shows the limits.\n"
        "You choose with --activity what keeps an agent from being idle:\n"
        "  output   its terminal shows something new (the default)\n"
        "  input    you type a key or send a message\n"
        "  process  its processes use processor time"
    ),
    arguments=(NAMES_ARGUMENT,),
    options=(
        Option(
            flags=("--idle",),
            metavar="TIME",
            help="Stop the agent after TIME without activity; none removes the limit (default: no change)",
        ),
        Option(
            flags=("--lifetime",),
            metavar="TIME",
            help="Stop the agent TIME after its creation; none removes the limit (default: no change)",
        ),
        make_field_option(AgentSpec, "activity", "--activity", metavar="WHAT").replace(
            help=f"{AgentSpec._descriptions['activity'].help} (default: no change)", default=None
        ),
    ),
    examples=(
        ("mngr limit foo --idle 30m", "Stop foo after half an hour without activity"),
        ("mngr limit foo --idle 2h --activity output,process", "Count a silent computation as activity"),
        ("mngr limit foo --idle none", "Remove the limit"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Set or show the limits of agents."""
    changes = LimitChanges(
        idle_timeout=_parse_limit(args["idle"]), lifetime=_parse_limit(args["lifetime"]), activity=args["activity"]
    )
    return render.render_outcomes(cli, cli.fleet.limit(read_names(args), changes), human=_format_outcome)


def _parse_limit(text: str | None) -> float | None:
    """Return the seconds of a limit, NO_LIMIT for the word `none`, or None without the option."""
    if text is None:
        return None
    return NO_LIMIT if text == "none" else parse_duration(text)


def _format_outcome(outcome: Outcome) -> str:
    limits = {"idle": find_number(outcome.extra, "idle_timeout"), "lifetime": find_number(outcome.extra, "lifetime")}
    parts = [f"{key} {format_duration(seconds)}" for key, seconds in limits.items() if seconds]
    if outcome.extra["idle_timeout"] and outcome.extra["activity"] != "output":
        parts.append(f"activity is {outcome.extra['activity']}")
    return f"{outcome.name}: " + (", ".join(parts) or "no limits")
