"""`mngr tmr retry`."""

from __future__ import annotations

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.spec import Argument, Command, Option
from mngr.cli.framework.table import COMMANDS
from mngr.cli.runs.shared import BOUNDS, NOTIFY, Progress, root_of
from mngr.cli.runs.tmr.resume import kept_limits
from mngr.cli.runs.tmr.shared import finish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = Command(
    name="tmr retry",
    summary=COMMANDS["tmr retry"][1],
    description="Without TASK, everything that came to nothing: blocked, failed, refuted, flaky or unverified. Each gets a new agent.",
    arguments=(Argument(name="TASK", help="a test, or a task's slug", many=True, required=False),),
    options=(
        Option(flags=("--blocked",), help="only those whose agent said that it is blocked"),
        Option(flags=("--run",), metavar="RUN", help="which run (default: the latest)", complete="runs"),
        Option(flags=("-m", "--message"), metavar="HINT", help="what the agents should know this time"),
        Option(flags=("--agent",), metavar="KIND", help="another kind of agent", complete="kinds"),
        Option(
            flags=("--agent-arg",),
            metavar="WORD",
            many=True,
            help="a word for the agent's program, instead of those of before",
        ),
        NOTIFY,
        *BOUNDS,
    ),
    examples=(
        ("mngr tmr retry", "all that came to nothing"),
        ("mngr tmr retry --blocked --agent claude", "what one could not do, by another"),
        (
            "mngr tmr retry tests/test_x.py::test_y -m 'the clock is UTC' --agent claude",
            "one, with a hint, by another",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Put them back and go on."""
    from mngr.mapreduce.journal import read_journal
    from mngr.mapreduce.run_dir import find_run
    from mngr.tmr.control import AGAIN, again

    place = find_run(root_of(cli), args["run"], "tmr")
    limits = kept_limits(place, args)
    if args["agent"] is not None:
        cli.context.kind(args["agent"])
    if args["blocked"] and args["task"]:
        raise UsageError("--blocked and a task", "one or the other")
    outcomes = ("blocked",) if args["blocked"] else AGAIN
    slugs = again(
        place, args["task"] or [], outcomes=outcomes, hint=args["message"] or "", agent=args["agent"], args=args["agent_arg"] or ()
    )  # fmt: skip
    if not slugs:
        raise MngrError(
            f"nothing of the run {place.name} {'is blocked' if args['blocked'] else 'came to nothing'}",
            "name tasks to do them again all the same",
        )
    cli.say(f"run {place.name}: {len(slugs)} again")
    say = Progress(cli, notify=args["notify"], rows=read_journal(place.journal))
    return finish(cli, place, limits, say)
