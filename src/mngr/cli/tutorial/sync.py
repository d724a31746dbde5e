"""The command `mngr tutorial sync`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import parse_dollars
from mngr.cli.tutorial.blocks import FILE_ARGUMENT
from mngr.cli.tutorial.check import TESTS_ARGUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.writing.sync import SyncResult
    from mngr.tutorial.writing.worker import WriterRequest

# The agent that works on a tutorial, its host, and its budget.
WORKER_OPTIONS = (
    Option(flags=("--agent",), metavar="KIND", default="mechanic", help="who does it", complete="kinds"),
    Option(flags=("--rounds",), metavar="N", kind="int", default=3, help="how often it is told what is wrong"),
    Option(flags=("--timeout",), metavar="TIME", kind="length", default=3600.0, help="how long a round may take"),
    Option(flags=("--budget",), metavar="USD", help="what it may cost; it is stopped when it costs more"),
    Option(flags=("--on",), metavar="ADDRESS", help="where it works: @HOST or @.PROVIDER (default: here)"),
    Option(flags=("--sandbox",), help="run each agent in a sandbox, as in create"),
    Option(flags=("--network",), metavar="on|off|allow=HOST[:PORT],…", help="as in create"),
    Option(flags=("--yolo",), help="as in create: it asks nobody for permission"),
)
COMMAND = CommandSpec(
    name="tutorial sync",
    summary=COMMANDS["tutorial sync"][1],
    description=(
        "Makes an agent, tells it which blocks have no test and which citations are out of date, and checks what it committed:\n"
        "`tutorial check` decides, and pytest must be able to load the tests. It is told what is still wrong, at most --rounds\n"
        "times. The work is left on a branch of its own, for you to review.\n"
        "The mechanic needs no model: it runs each block several times and writes down what was the same each time, in tests\n"
        "that are marked as observed until somebody has reviewed them."
    ),
    arguments=(FILE_ARGUMENT, TESTS_ARGUMENT),
    options=WORKER_OPTIONS,
    trailing_help="ARGS",
    examples=(
        ("mngr tutorial sync --sandbox", "tests for blocks that have none, without a model"),
        (
            "mngr tutorial sync --agent claude --sandbox --yolo",
            "by Claude Code, which may do everything in its own copy",
        ),
    ),
)


def build_request(args: Args) -> WriterRequest:
    """Return the request that the options describe; raise UsageError for a wrong budget."""
    from mngr.tutorial.writing.worker import WriterRequest

    return WriterRequest(
        agent=args["agent"], rounds=max(1, args["rounds"]), timeout=args["timeout"], sandbox=args["sandbox"],
        network=args["network"], yolo=args["yolo"], on=args["on"], args=args.rest or [], budget=parse_dollars(args, "budget"),
    )  # fmt: skip


def run(cli: Cli, args: Args) -> int:
    """Have an agent write the missing tests, print a table, and fail if something is still wrong."""
    from mngr.tutorial.paths import TutorialPaths
    from mngr.tutorial.writing.sync import sync_tests

    result = sync_tests(cli.context, TutorialPaths(cli.context, args["file"], args["tests"]), build_request(args))
    fields = {key: value for key, value in result.to_dict().items() if key != "rows"}
    render.render_rows(cli, "blocks", result.rows, _format_synced(result), **fields)
    if result.is_complete:
        return 0
    cli.print_message(terminal_text.strip_controls("\n".join(result.problems)))
    count = len(result.problems)
    raise MngrError(
        f"{count} {'thing is' if count == 1 else 'things are'} still wrong",
        f"look at the branch {result.branch}, and talk to the agent: mngr connect {result.agent} --start"
        if result.agent
        else "mend the script: an agent may not",
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
