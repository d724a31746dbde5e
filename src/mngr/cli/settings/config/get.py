"""The command `mngr config get`."""

from __future__ import annotations

from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.settings.config_shared import format_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="config get",
    summary=COMMANDS["config get"][1],
    arguments=(Argument(name="KEY", help="A setting, for example project.setup", complete="settings"),),
    examples=(
        ("mngr config get stop.grace", "Print the value of stop.grace"),
        ("mngr config get stop.grace --format '{source}'", "Print the source of the value"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the value of one setting."""
    setting = cli.fleet.get_setting(args["key"])
    render.render_item(cli, setting.to_dict(), terminal_text.strip_controls(format_value(setting.value)))
    return 0
