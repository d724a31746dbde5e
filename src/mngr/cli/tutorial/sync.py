"""`mngr tutorial sync`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.spec import Command, Option
from mngr.cli.framework.table import COMMANDS
from mngr.cli.runs.shared import money
from mngr.cli.tutorial.blocks import FILE
from mngr.cli.tutorial.check import TESTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.writing.sync import Synced
    from mngr.tutorial.writing.worker import Wish

# Who works on a tutorial, where, and what it may cost.
WORKER = (
    Option(flags=("--agent",), metavar="KIND", default="mechanic", help="who does it", complete="kinds"),
    Option(
        flags=("--rounds",), metavar="N", kind="int", default=3, help="how often it is told what is wrong"
    ),
    Option(
        flags=("--timeout",), metavar="TIME", kind="length", default=3600.0, help="how long a round may take"
    ),
    Option(flags=("--budget",), metavar="USD", help="what it may cost; it is stopped when it costs more"),
    Option(flags=("--on",), metavar="ADDRESS", help="where it works: @HOST or @.PROVIDER (default: here)"),
    Option(flags=("--sandbox",), help="behind walls, as in create"),
    Option(flags=("--network",), metavar="on|off|allow=HOST[:PORT],…", help="as in create"),
    Option(flags=("--yolo",), help="as in create: it asks nobody for permission"),
)
COMMAND = Command(
    name="tutorial sync",
    summary=COMMANDS["tutorial sync"][1],
    description=(
        "Makes an agent, tells it which blocks have no test and which citations are out of date, and checks what it committed:\n"
        "`tutorial check` decides, and pytest must be able to load the tests. It is told what is still wrong, at most --rounds\n"
        "times. The work is left on a branch of its own, for you to review.\n"
        "The mechanic needs no model: it runs each block several times and writes down what was the same each time, in tests\n"
        "that are marked as observed until somebody has reviewed them."
    ),
    arguments=(FILE, TESTS),
    options=WORKER,
    rest="ARGS",
    examples=(
        ("mngr tutorial sync --sandbox", "tests for blocks that have none, without a model"),
        (
            "mngr tutorial sync --agent claude --sandbox --yolo",
            "by Claude Code, which may do everything in its own copy",
        ),
    ),
)


def wish_of(args: Args) -> Wish:
    """What these options ask for; UsageError for a budget that is none."""
    from mngr.tutorial.writing.worker import Wish

    return Wish(
        agent=args["agent"], rounds=max(1, args["rounds"]), timeout=args["timeout"], sandbox=args["sandbox"],
        network=args["network"], yolo=args["yolo"], on=args["on"], args=args.rest or [], budget=money(args, "budget"),
    )  # fmt: skip


def run(cli: Cli, args: Args) -> int:
    """Have it done, show the table, and fail when something is still wrong."""
    from mngr.tutorial.locate import Places
    from mngr.tutorial.writing.sync import sync

    synced = sync(cli.context, Places(cli.context, args["file"], args["tests"]), wish_of(args))
    more = {key: value for key, value in synced.to_dict().items() if key != "rows"}
    render.rows(cli, "blocks", synced.rows, _human(synced), **more)
    if synced.is_good:
        return 0
    cli.say(terminal_text.clean("\n".join(synced.problems)))
    count = len(synced.problems)
    raise MngrError(
        f"{count} {'thing is' if count == 1 else 'things are'} still wrong",
        f"look at the branch {synced.branch}, and talk to the agent: mngr connect {synced.agent} --start"
        if synced.agent
        else "mend the script: an agent may not",
    )


def _human(synced: Synced) -> str:
    if synced.agent is None:
        return "every block has a test, and every citation matches"
    text = ""
    for row in synced.rows:
        tests = row["tests"] if isinstance(row["tests"], list) else []
        shown = ", ".join(str(test) for test in tests) or "no test"
        text += f"{row['slug']}: {shown}{' (observed)' if row['observed'] else ''}\n"
    return terminal_text.clean(text + f"the work is on {synced.branch}: git diff ...{synced.branch}")
