"""The command `mngr connect`."""

from __future__ import annotations

import os

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.cli_invocation import raise_single_failure
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive, refresh_ssh_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

CONNECT_COMMAND = Option(
    flags=("--connect-command",),
    metavar="CMD",
    help="what to run instead of attaching; MNGR_AGENT_NAME is set for it",
)
COMMAND = CommandSpec(
    name="connect",
    summary=COMMANDS["connect"][1],
    description=(
        "Without NAME you choose from a list. The status line says how to detach; the agent goes on.\n"
        "Instead of attaching, a command of yours can be run: --connect-command, or the setting\n"
        "commands.connect.connect_command, or commands.create.connect_command."
    ),
    arguments=(Argument(name="NAME", help="an agent's name or id", required=False, complete="agents"),),
    options=(Option(flags=("--start",), help="start it first if it is stopped"), CONNECT_COMMAND),
    examples=(
        ("mngr connect foo", "attach to foo"),
        ("mngr connect", "choose from a list"),
        ("mngr connect foo --connect-command 'code \"$MNGR_WORK_DIR\"'", "open an editor instead"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Attach to an agent, or run the user's own command instead."""
    name = args["name"]
    if name is None:
        from mngr.cli.framework.picker import pick_agent

        name = pick_agent(cli.fleet.list().agents)
    if args["start"]:
        raise_single_failure(cli.fleet.start([name]))
    return connect_terminal(cli, name, args["connect_command"])


def connect_terminal(cli: Cli, name: str, command: str | None) -> int:
    """Replace this process by the agent's terminal or by the user's command. This does not return."""
    refresh_ssh_entries(cli.context)
    command = command or _find_connect_command(cli)
    if command:
        variables = cli.fleet.get_connect_variables(name)
        shell.exec_program(["sh", "-c", command], {**os.environ, **variables})
    if not is_interactive():
        raise MngrError("connect needs a terminal", f"look at its screen with: mngr capture {name}")
    argv = cli.fleet.build_attach_argv(name)
    shell.exec_program(argv, {key: value for key, value in os.environ.items() if key not in ("TMUX", "TMUX_PANE")})


def _find_connect_command(cli: Cli) -> str | None:
    """Return the command from the settings that replaces attaching, or None."""
    settings = cli.context.settings
    command = settings.get("commands.connect.connect_command") or settings.get("commands.create.connect_command")
    return str(command) if command else None


def check_can_connect(cli: Cli, count: int, command: str | None) -> None:
    """Raise UsageError unless there is one agent, and MngrError unless there is a terminal or a command."""
    if count != 1:
        raise UsageError("--connect goes with one agent", "leave out --count, or use --no-connect")
    if not is_interactive() and not command and not _find_connect_command(cli):
        raise MngrError("connect needs a terminal", "leave out --connect, and look at the screen with: mngr capture")
