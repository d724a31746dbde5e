"""`mngr tmr redo`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.cli.framework.spec import Argument, Command, Option
from mngr.cli.framework.table import COMMANDS
from mngr.cli.runs.shared import BOUNDS, NOTIFY, Progress, parked, root_of
from mngr.cli.runs.tmr.resume import kept_limits
from mngr.cli.runs.tmr.shared import BAD, put_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.run_dir import RunDir

COMMAND = Command(
    name="tmr redo",
    summary=COMMANDS["tmr redo"][1],
    description=(
        "Wakes the agent that made the change, tells it what you want in the conversation that it has, takes what it makes of it with\n"
        "a new receipt, and integrates the run again. Where several made the same, the first of them is told. If the agent gives no\n"
        "answer, all stays as it was. To have another agent do it: mngr tmr retry."
    ),
    arguments=(
        Argument(
            name="CHANGE",
            help="a change, as mngr tmr changes names it, a task, or a commit of the branch",
            complete="changes",
        ),
    ),
    options=(
        Option(flags=("-m", "--message"), metavar="TEXT", help="what you want otherwise"),
        Option(flags=("--run",), metavar="RUN", help="which run (default: the latest)", complete="runs"),
        NOTIFY,
        *BOUNDS,
    ),
    examples=(("mngr tmr redo 3fa9c1 -m 'keep the old name, too'", "one change, otherwise"),),
)


def run(cli: Cli, args: Args) -> int:
    """Tell the agent, see its task through, and make the branch again."""
    from mngr.mapreduce.journal import read_journal
    from mngr.mapreduce.run_dir import find_run
    from mngr.tmr.changes.gather import gather, integration
    from mngr.tmr.changes.selection import find
    from mngr.tmr.redo import redo
    from mngr.tmr.run import go

    if not (args["message"] or "").strip():
        raise UsageError("mngr tmr redo needs -m", "say what you want otherwise: -m 'keep the old name, too'")
    place = find_run(root_of(cli), args["run"], "tmr")
    limits = kept_limits(place, args)
    commits = (integration(place) or {}).get("commits") or []
    changes = find(gather(cli.context.local, place).changes, args["change"], commits)
    asked = redo(cli.fleet, place, changes, args["message"])
    slug = asked.slug
    beside = f", and not {', '.join(asked.others)}, who made the same" if asked.others else ""
    cli.say(f"run {place.name}: {slug} is for {asked.agent} again{beside}")
    say = Progress(cli, notify=args["notify"], rows=read_journal(place.journal))
    try:
        state = go(cli.fleet, place, limits, say)
        one = state.tasks[slug]
    finally:
        say.close()
    if one.state != "settled":
        raise parked(f"mngr tmr resume {place.name}", state)
    nothing = put_back(cli, place)
    return max(integrate_again(cli, place), 4 if slug in nothing or one.outcome in BAD else 0)


def integrate_again(cli: Cli, place: RunDir) -> int:
    """Make the branch of a run with the wishes of before."""
    from mngr.cli.runs.tmr.integrate import code_of, integrate_run
    from mngr.tmr.integrate.order import Order
    from mngr.tmr.plan import load_plan

    return code_of(integrate_run(cli, place, Order(agent=load_plan(place).integrator)))
