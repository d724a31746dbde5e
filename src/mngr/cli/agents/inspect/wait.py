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
        "Without --state, mngr waits until no agent is STARTING or RUNNING. If an agent ends before it has reached "
        "the state, mngr stops waiting for this agent. In this case, the exit code is 1, or 4 if you named several "
        "agents. The exit code is 5 if TIME has passed."
    ),
    arguments=(NAMES_ARGUMENT,),
    options=(
        Option(
            flags=("--state",),
            metavar="S[,S]",
            is_repeatable=True,
            help="Wait until the agent is in the state S; separate several states with commas (default: any state "
            "except STARTING and RUNNING)",
            complete="states",
        ),
        Option(flags=("--any",), help="Stop waiting when one of the agents has reached the state"),
        Option(flags=("--all",), help="Stop waiting when all agents have reached the state (default: on)"),
        Option(flags=("--timeout",), metavar="TIME", kind="length", help="Stop waiting after TIME (default: never)"),
    ),
    examples=(
        ("mngr wait foo", "Wait until foo waits for you or has ended"),
        (
            "mngr wait foo bar --state DONE --timeout 10m",
            "Wait until both agents have ended successfully, for at most ten minutes",
        ),
        (
            "mngr list --ids | mngr wait - --any --state WAITING,FAILED",
            "Wait until any of your agents waits for you or has failed",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Wait for a state, and print the state of each agent."""
    if args["any"] and args["all"]:
        raise UsageError("--any and --all cannot be combined", "leave out one of them; --all is the default")
    state = ",".join(args["state"]) if args["state"] else None
    outcomes = cli.fleet.wait(read_names(args), state, any_of=args["any"], timeout=args["timeout"])
    code = render.render_outcomes(cli, outcomes, human=_format_outcome)
    if any(outcome.exit_code == TimedOut.exit_code for outcome in outcomes):
        return TimedOut.exit_code
    return code


def _format_outcome(outcome: Outcome) -> str:
    reason = outcome.extra["state_reason"]
    return f"{outcome.name} {outcome.extra['state']}" + (f" ({reason})" if reason else "")
