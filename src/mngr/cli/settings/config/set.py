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
        "What describes the project (project.*, tutorial.*) goes to the project's file, all else to yours, unless a\n"
        "scope is given. A value is TOML where it reads as such, else text. Comments in the file stay."
    ),
    arguments=(
        Argument(name="KEY", help="a setting; KEY+= extends a list; KEY=VALUE is one word", complete="settings"),
        Argument(name="VALUE", help="its value", required=False),
    ),
    options=SCOPE_OPTIONS,
    examples=(
        ("mngr config set project.setup 'uv sync'", "how a fresh copy of this project is made runnable"),
        ("mngr config set project.carry+=.env", "one more ignored file that agents need"),
        ("mngr config set commands.create.connect false --user", "the default of an option of create"),
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
