"""The command `mngr config path`."""

from __future__ import annotations

import os

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.settings.config_shared import SCOPE_OPTIONS, find_scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="config path",
    summary=COMMANDS["config path"][1],
    description="With --user, --project or --local, mngr prints only the path of that file. mngr prints a path even "
    "if the file does not exist.",
    options=SCOPE_OPTIONS,
    examples=(
        ("mngr config path", "Print all paths"),
        ("$EDITOR $(mngr config path --user)", "Edit your own settings"),
    ),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Print the paths of the settings files."""
    scope = find_scope(args)
    files = cli.fleet.list_settings_paths() if scope is None else {scope: cli.fleet.get_settings_path(scope)}
    items = [{"source": name, "path": path, "exists": os.path.exists(path)} for name, path in files.items()]
    lines = [(name, path, "yes" if os.path.exists(path) else "no") for name, path in files.items()]
    human = render.format_table(("SOURCE", "PATH", "EXISTS"), lines) if scope is None else files[scope]
    render.render_rows(cli, "paths", items, human)
    return 0
