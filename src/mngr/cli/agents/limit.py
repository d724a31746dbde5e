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
        "If an agent reaches a limit, mngr stops it and keeps its files and its conversation. You can start the agent "
        "again. If no other agent with a limit runs on the host, mngr also stops the host, provided that mngr can "
        "start this host again. Without options, mngr prints the agent's limits.\n"
        "--activity chooses what counts as activity:\n"
        "  output   the agent's terminal shows new text (default)\n"
        "  input    you press a key or send a message to the agent\n"
        "  process  the agent's processes use processor time"
    ),
    arguments=(NAMES_ARGUMENT,),
    options=(
        Option(
            flags=("--idle",),
            metavar="TIME",
            help="Stop the agent after TIME without activity; --idle none removes this limit (default: no change)",
        ),
        Option(
            flags=("--lifetime",),
            metavar="TIME",
            help="Stop the agent when TIME has passed since its creation; --lifetime none removes this limit "
            "(default: no change)",
        ),
        make_field_option(AgentSpec, "activity", "--activity", metavar="WHAT").replace(
            help=f"{AgentSpec._descriptions['activity'].help} (default: no change)", default=None
        ),
    ),
    examples=(
        ("mngr limit foo --idle 30m", "Stop foo when it has had no activity for half an hour"),
        ("mngr limit foo --idle 2h --activity output,process", "Treat a computation that prints nothing as activity"),
        ("mngr limit foo --idle none", "Remove the idle limit of foo"),
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
