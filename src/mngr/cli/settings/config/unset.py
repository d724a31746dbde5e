"""The command `mngr config unset`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.settings.config_shared import SCOPE_OPTIONS, find_scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="config unset",
    summary=COMMANDS["config unset"][1],
    description=(
        "If you do not choose a file, mngr removes the setting from the file that currently determines its value. You "
        "can also remove a setting that mngr does not know."
    ),
    arguments=(Argument(name="KEY", help="A setting", complete="settings"),),
    options=SCOPE_OPTIONS,
    examples=(("mngr config unset project.setup", "Remove a setting"),),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Remove one setting."""
    path = cli.fleet.unset_setting(args["key"], find_scope(args))
    render.render_item(cli, {"key": args["key"], "path": path}, f"{args['key']} is no longer set in {path}")
    return 0
