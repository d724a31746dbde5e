"""`mngr version`."""

from __future__ import annotations

from mngr import __version__
from mngr.cli import render
from mngr.cli.spec import Command
from mngr.cli.table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.parse import Args
    from mngr.cli.run import Cli

COMMAND = Command(
    name="version",
    summary=COMMANDS["version"][1],
    examples=(("mngr version", "also: mngr --version"),),
    mends=True,
)


def run(cli: Cli, args: Args) -> int:
    """Print it."""
    import platform

    render.one(cli, {"version": __version__, "python": platform.python_version()}, f"mngr {__version__}")
    return 0
