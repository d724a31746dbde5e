"""`mngr config get`."""

from __future__ import annotations

from mngr.cli import render
from mngr.cli.settings import show
from mngr.cli.spec import Argument, Command
from mngr.cli.table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.parse import Args
    from mngr.cli.run import Cli

COMMAND = Command(
    name="config get",
    summary=COMMANDS["config get"][1],
    arguments=(Argument(name="KEY", help="a setting, for example project.setup", complete="settings"),),
    examples=(
        ("mngr config get stop.grace", "the value alone"),
        ("mngr config get stop.grace --format '{source}'", "where it comes from"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print one value."""
    setting = cli.fleet.get_setting(args["key"])
    render.one(cli, setting.to_dict(), render.clean(show(setting.value)))
    return 0
