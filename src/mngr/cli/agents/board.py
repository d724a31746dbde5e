"""The command `mngr board`."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="board",
    summary=COMMANDS["board"][1],
    description=(
        "The board groups agents by what they need from you, and shows the screen, the conversation, the diff, the "
        "events and the explanation of the selected agent. Keys answer, message, pull, stop and destroy agents; ? shows "
        "all keys. The board also shows the latest runs of the project. If you leave the board, the agents continue to "
        "run. The board needs the Python package textual: pipx inject mngr textual."
    ),
    options=(
        Option(
            flags=("--filter",),
            metavar="EXPR",
            help="Show only agents that match the expression EXPR, for example 'state == RUNNING'; see: mngr help "
            "filters",
        ),
    ),
    examples=(
        ("mngr board", "Show all agents and act on them"),
        ("mngr board --filter 'labels.team == red'", "Show only the agents of one team"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Show the board until the user leaves it."""
    if not is_interactive() or os.environ.get("TERM", "dumb") == "dumb":
        raise MngrError("mngr board needs a terminal", "list the agents: mngr list")
    try:
        import textual
    except ImportError:
        raise MngrError("mngr board needs the Python package textual", "install it: pipx inject mngr textual") from None
    del textual
    from mngr.base.paths import find_project_root
    from mngr.board.app import BoardApp

    context = cli.context
    # The board owns the terminal, so nothing else may print or ask there.
    context.note = lambda text: None
    context.ask = context.ask_trust = None
    root = find_project_root(context.cwd)
    BoardApp(cli.fleet, root=root, filter_text=args["filter"] or "").run()
    return 0
