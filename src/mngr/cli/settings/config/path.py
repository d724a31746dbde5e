"""`mngr config path`."""

from __future__ import annotations

import os

from mngr.cli.framework import render
from mngr.cli.framework.spec import Command
from mngr.cli.framework.table import COMMANDS
from mngr.cli.settings.shared import SCOPES, scope_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = Command(
    name="config path",
    summary=COMMANDS["config path"][1],
    description="With a scope, prints that path alone. The files need not exist.",
    options=SCOPES,
    examples=(
        ("mngr config path", "all of them"),
        ("$EDITOR $(mngr config path --user)", "edit your own settings"),
    ),
    mends=True,
)


def run(cli: Cli, args: Args) -> int:
    """Print the paths."""
    scope = scope_of(args)
    files = cli.fleet.settings_paths() if scope is None else {scope: cli.fleet.settings_path(scope)}
    items = [{"source": name, "path": path, "exists": os.path.exists(path)} for name, path in files.items()]
    lines = [(name, path, "yes" if os.path.exists(path) else "no") for name, path in files.items()]
    human = render.table(("SOURCE", "PATH", "EXISTS"), lines) if scope is None else files[scope]
    render.rows(cli, "paths", items, human)
    return 0
