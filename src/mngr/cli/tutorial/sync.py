"""The command `mngr tutorial sync`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option, place_below
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import parse_dollars
from mngr.cli.tutorial.blocks import FILE_ARGUMENT
from mngr.cli.tutorial.check import TESTS_ARGUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.writing.write_missing_tests import SyncResult
    from mngr.tutorial.writing.writing_agent import WriterRequest

# The agent that works on a tutorial, its host, and its budget.
WORKER_OPTIONS = place_below(
    "Agent",
    Option(
        flags=("--agent",),
        metavar="KIND",
        default="mechanic",
        help="Use an agent of the kind KIND, for example claude",
        complete="kinds",
    ),
    Option(
        flags=("--rounds",),
        metavar="N",
        kind="int",
        default=3,
        help="Ask the agent to correct its work at most N times",
    ),
    Option(
        flags=("--timeout",),
        metavar="TIME",
        kind="length",
        default=3600.0,
        help="Stop with an error if the agent does not answer a message within TIME",
    ),
    Option(
        flags=("--budget",),
        metavar="USD",
        help="Stop the agent when it has cost this many US dollars (default: no limit)",
    ),
    Option(
        flags=("--on",),
        metavar="ADDRESS",
        help="Run the agent on the host @HOST, or on a new host that @.PROVIDER creates (default: this machine)",
    ),
    Option(
        flags=("--sandbox",),
        help="Run the agent in a sandbox, in which it can use system programs and its own "
        "copy of the project, but neither your other files nor the network",
    ),
    Option(
        flags=("--network",),
        metavar="on|off|allow=HOST[:PORT],…",
        help="Allow the agent to use the whole network (on), no network (off), or only the listed network hosts "
        "(default: on; with --sandbox, off)",
    ),
    Option(
        flags=("--yolo",),
        help="Let the agent act without asking you for permission; mngr requires --sandbox, a "
        "new host or your confirmation",
    ),
)
COMMAND = CommandSpec(
    name="tutorial sync",
    summary=COMMANDS["tutorial sync"][1],
    description=(
        "mngr creates an agent and tells it which blocks have no test and which citations are stale. mngr checks the "
        "agent's commits: mngr tutorial check must succeed, and pytest must be able to load the tests. If a check "
        "fails, mngr asks the agent to correct its work, at most --rounds times. The result is on the agent's branch.\n"
        "The rule-based agent (mechanic) needs no model. It runs each block several times and writes tests for the "
        "output that was the same each time. It gives these tests the marker pytest.mark.observed, which you remove "
        "after you have reviewed them."
    ),
    arguments=(FILE_ARGUMENT, TESTS_ARGUMENT),
    options=WORKER_OPTIONS,
    trailing=Argument(name="ARGS", help="Pass these arguments to the agent's program unchanged"),
    examples=(
        ("mngr tutorial sync --agent claude --sandbox --yolo", "Let Claude Code write the missing tests in a sandbox"),
        ("mngr tutorial sync --sandbox", "Let the rule-based agent write the missing tests, without a model"),
    ),
)


def build_request(args: Args) -> WriterRequest:
    """Return the request that the options describe; raise UsageError for a wrong budget."""
    from mngr.tutorial.writing.writing_agent import WriterRequest

    return WriterRequest(
        agent=args["agent"],
        rounds=max(1, args["rounds"]),
        timeout=args["timeout"],
        sandbox=args["sandbox"],
        network=args["network"],
        yolo=args["yolo"],
        on=args["on"],
        args=args.rest or [],
        budget=parse_dollars(args, "budget"),
    )


def run(cli: Cli, args: Args) -> int:
    """Have an agent write the missing tests, print a table, and fail if something is still wrong."""
    from mngr.tutorial.paths import TutorialPaths
    from mngr.tutorial.writing.write_missing_tests import sync_tests

    result = sync_tests(cli.context, TutorialPaths(cli.context, args["file"], args["tests"]), build_request(args))
    fields = {key: value for key, value in result.to_dict().items() if key != "rows"}
    render.render_rows(cli, "blocks", result.rows, _format_synced(result), **fields)
    if result.is_complete:
        return 0
    cli.print_message(terminal_text.strip_controls("\n".join(result.problems)))
    count = len(result.problems)
    raise MngrError(
        f"{count} {'problem remains' if count == 1 else 'problems remain'}",
        f"review the branch {result.branch}, and continue with the agent: mngr connect {result.agent} --start"
        if result.agent
        else "correct the script yourself, because an agent must not change it; then run again: mngr tutorial sync",
    )


def _format_synced(result: SyncResult) -> str:
    if result.agent is None:
        return "every block has a test, and every citation matches"
    text = ""
    for row in result.rows:
        tests = row["tests"] if isinstance(row["tests"], list) else []
        test_names = ", ".join(str(test) for test in tests) or "no test"
        text += f"{row['slug']}: {test_names}{' (observed)' if row['observed'] else ''}\n"
    return terminal_text.strip_controls(text + f"the work is on {result.branch}: git diff ...{result.branch}")
