"""The command `mngr version`."""

from __future__ import annotations

from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import print_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="version",
    summary=COMMANDS["version"][1],
    examples=(("mngr version", "Print the version, as mngr --version does"),),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Print the version."""
    print_version(cli)
    return 0
