"""The command `mngr wait`."""

from __future__ import annotations

from mngr.base.errors import TimedOut, UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import NAMES_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="wait",
    summary=COMMANDS["wait"][1],
    description=(
        "Without --state it waits until an agent is neither STARTING nor RUNNING. An agent that has ended in another state\n"
        "than the one asked for ends the waiting at once with exit code 1, or 4 for one of several. Exit code 5 when the time is up."
    ),
    arguments=(NAMES_ARGUMENT,),
    options=(
        Option(
            flags=("--state",),
            metavar="S[,S]",
            is_repeatable=True,
            help="the states to wait for",
            complete="states",
        ),
        Option(flags=("--any",), help="return as soon as one of the agents is there"),
        Option(flags=("--all",), help="return when all agents are there (the default)"),
        Option(flags=("--timeout",), metavar="TIME", kind="length", help="give up after so long"),
    ),
    examples=(
        ("mngr wait foo", "until foo waits for you or has ended"),
        ("mngr wait foo bar --state DONE --timeout 10m", "until both have ended well"),
        ("mngr list --ids | mngr wait - --any --state WAITING,FAILED", "until somebody needs you"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Wait for a state, and print the state of each agent."""
    if args["any"] and args["all"]:
        raise UsageError("--any and --all exclude each other", "--all is the default")
    state = ",".join(args["state"]) if args["state"] else None
    outcomes = cli.fleet.wait(read_names(args), state, any_of=args["any"], timeout=args["timeout"])
    code = render.render_outcomes(cli, outcomes, human=_format_outcome)
    if any(outcome.exit_code == TimedOut.exit_code for outcome in outcomes):
        return TimedOut.exit_code
    return code


def _format_outcome(outcome: Outcome) -> str:
    reason = outcome.extra["state_reason"]
    return f"{outcome.name} {outcome.extra['state']}" + (f" ({reason})" if reason else "")
