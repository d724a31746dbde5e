"""The command `mngr config set`."""

from __future__ import annotations

from mngr.base import config
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.settings.config_shared import SCOPE_OPTIONS, check_option, find_scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="config set",
    summary=COMMANDS["config set"][1],
    description=(
        "If you do not choose a file, mngr writes settings that describe the project (project.* and tutorial.*) to "
        "the project's file, and all other settings to your own file. mngr reads VALUE as TOML. If VALUE is not valid "
        "TOML, mngr uses it as text. mngr keeps the comments in the file."
    ),
    arguments=(
        Argument(
            name="KEY",
            help="The setting's name, or KEY+= to add a value to a list; you can also write KEY=VALUE as one argument",
            complete="settings",
        ),
        Argument(name="VALUE", help="The new value", required=False),
    ),
    options=SCOPE_OPTIONS,
    examples=(
        ("mngr config set project.setup 'uv sync'", "Set the command that prepares a fresh copy of this project"),
        ("mngr config set project.carry+=.env", "Copy the ignored file .env to each agent"),
        ("mngr config set commands.create.connect false --user", "Turn off --connect by default for mngr create"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Write one setting."""
    text = args["key"] if args["value"] is None else f"{args['key'].removesuffix('=')}={args['value']}"
    key, value = config.parse_assignment(text)
    check_option(cli.context, key, value)
    path = cli.fleet.set_setting(key, value, find_scope(args))
    render.render_item(cli, {"key": key, "value": value, "path": path}, f"{key.removesuffix('+=')} is set in {path}")
    return 0
