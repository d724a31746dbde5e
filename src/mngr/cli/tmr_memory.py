"""`mngr tmr memory`."""

from __future__ import annotations

from mngr.cli import render
from mngr.cli.pipeline import root_of
from mngr.cli.spec import Argument, Command
from mngr.cli.table import COMMANDS
from mngr.errors import NotFound, UsageError, closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.parse import Args
    from mngr.cli.run import Cli

COMMAND = Command(
    name="tmr memory",
    summary=COMMANDS["tmr memory"][1],
    description=(
        "A run leaves out tests that an earlier one has confirmed and that have not changed since: neither they, nor the\n"
        "conftest files above them, the tutorial or the code under test. `forget` makes the next run take them up again.\n"
        "`flaky` shows the tests that passed at one time and failed at another without a change, how often, and what may be behind it."
    ),
    arguments=(
        Argument(name="ACTION", help="list, flaky or forget", required=False),
        Argument(name="TEST", help="the tests to forget (default: all)", many=True, required=False),
    ),
    examples=(("mngr tmr memory list", "what is known"), ("mngr tmr memory forget", "begin anew")),
)


def run(cli: Cli, args: Args) -> int:
    """Show what is known, or forget it."""
    from mngr.tmr.flaky import FlakyList
    from mngr.tmr.memory import Memory

    action, tests = args["action"] or "list", args["test"] or []
    memory = Memory(root_of(cli))
    if action == "list":
        known = [one for one in memory.tests.values() if not tests or one.test in tests]
        lines = [(one.outcome, one.verdict or "-", one.run, one.test) for one in known]
        human = (
            render.table(("OUTCOME", "SEEN", "RUN", "TEST"), lines)
            if lines
            else "nothing is known of earlier runs"
        )
        render.rows(cli, "tests", [one.to_dict() for one in known], human)
        return 0
    if action == "flaky":
        return _flaky(cli, tests)
    if action != "forget":
        known_actions = ["list", "flaky", "forget"]
        raise UsageError(
            f"memory cannot {action!r}", closest(action, known_actions) or "list, flaky or forget"
        )
    flaky = FlakyList(root_of(cli))
    for test in tests:
        if test not in memory.tests and test not in flaky.read():
            raise NotFound(
                f"nothing is known of {test}",
                closest(test, list(memory.tests)) or "see: mngr tmr memory list",
            )
    gone = list(dict.fromkeys([*memory.forget(tests or None), *flaky.forget(tests or None)]))
    render.rows(cli, "tests", [{"test": test} for test in gone], f"{len(gone)} forgotten")
    return 0


def _flaky(cli: Cli, tests: list[str]) -> int:
    from mngr.tmr.flaky import FlakyList

    known = [one for one in FlakyList(root_of(cli)).read().values() if not tests or one.test in tests]
    lines = [
        (f"{one.rate:.0%} of {one.runs}", one.first_seen, ", ".join(one.suspects) or "-", one.test)
        for one in known
    ]
    human = (
        render.table(("FAILED", "FIRST SEEN", "SUSPECTS", "TEST"), lines)
        if lines
        else "no test was seen to pass only now and then"
    )
    render.rows(cli, "tests", [{**one.to_dict(), "rate": round(one.rate, 3)} for one in known], human)
    return 0
