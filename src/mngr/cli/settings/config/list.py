"""The command `mngr config list`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.settings.config_shared import format_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="config list",
    summary=COMMANDS["config list"][1],
    description=(
        "A setting can come from six sources: default (built into mngr), user (the file in mngr's home), project "
        "(.mngr/settings.toml), local (.mngr/settings.local.toml), env (the environment variable MNGR__A__B for the "
        "setting a.b) and -S. If several sources contain the same setting, mngr uses the last of them in this order. "
        "KEY+= in a file adds values to a list and keeps the earlier values."
    ),
    examples=(
        ("mngr config list", "List each setting with its value and its source"),
        ("MNGR__STOP__GRACE=5s mngr config list", "Set stop.grace with an environment variable"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Show all settings that have a value."""
    settings = cli.fleet.list_settings()
    lines = [
        (
            setting.key,
            format_value(setting.value),
            f"{setting.source} ({setting.path})" if setting.path else setting.source,
        )
        for setting in settings
    ]
    render.render_rows(
        cli,
        "settings",
        [setting.to_dict() for setting in settings],
        render.format_table(("KEY", "VALUE", "SOURCE"), lines),
    )
    return 0
