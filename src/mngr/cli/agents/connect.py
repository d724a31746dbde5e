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
    help="Run the shell command CMD instead of attaching to the agent; CMD can use the variables $MNGR_AGENT_NAME and "
    "$MNGR_WORK_DIR",
)
COMMAND = CommandSpec(
    name="connect",
    summary=COMMANDS["connect"][1],
    description=(
        "Without NAME, mngr shows a list from which you choose an agent. The status line shows which keys detach your "
        "terminal. The agent continues to run after you detach. To run your own command instead of attaching, use "
        "--connect-command, or set commands.connect.connect_command or commands.create.connect_command."
    ),
    arguments=(
        Argument(
            name="NAME", help="An agent's name or id (default: choose from a list)", required=False, complete="agents"
        ),
    ),
    options=(Option(flags=("--start",), help="If the agent is stopped, start it before attaching"), CONNECT_COMMAND),
    examples=(
        ("mngr connect foo", "Attach to foo"),
        ("mngr connect", "Choose an agent from a list"),
        ("mngr connect foo --connect-command 'code \"$MNGR_WORK_DIR\"'", "Open foo's work dir in an editor instead"),
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
        raise MngrError("mngr connect needs a terminal", f"print the agent's screen: mngr capture {name}")
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
        raise UsageError(
            f"mngr can attach to one agent only, but --count is {count}",
            "create the agents without attaching: add --no-connect",
        )
    if not is_interactive() and not command and not _find_connect_command(cli):
        raise MngrError(
            "--connect needs a terminal", "leave out --connect; to print the agent's screen: mngr capture NAME"
        )
