"""The command `mngr pipe`."""

from __future__ import annotations

import os
import select
import sys

from mngr.base.errors import ConnectionLost, MngrError, UsageError
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="pipe",
    summary=COMMANDS["pipe"][1],
    description=(
        "Normally ssh runs this command as its ProxyCommand. mngr ssh-config prints the ssh configuration for it. "
        "mngr starts an ssh server (sshd) on the host for this one connection. The server does not listen on a port, "
        "and it accepts only a key from mngr's home. If ADDRESS is an agent, ssh sessions run in the agent's work dir "
        "with its environment variables, as with mngr exec. If ADDRESS is @HOST, ssh sessions run as mngr's user on "
        "that host."
    ),
    arguments=(Argument(name="ADDRESS", help="An agent's name or id, or @HOST", complete="agents"),),
    examples=(
        (
            "ssh -o ProxyCommand='mngr pipe foo' foo",
            "Connect to foo in the same way as the configuration from mngr ssh-config",
        ),
        ("mngr pipe @box < /dev/null", "Check that a host has an sshd"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Serve one ssh connection; send an error that comes before it to the client as well."""
    if sys.stdin.isatty():
        raise UsageError(
            "mngr pipe is for ssh and does not work in a terminal",
            "print the ssh entries that use mngr pipe: mngr ssh-config",
        )
    try:
        return cli.fleet.pipe(args["address"])
    except MngrError as error:
        if not isinstance(error, ConnectionLost):
            _send_error(error)
        raise


def _send_error(error: MngrError) -> None:
    """Send the error to the ssh client as a disconnect packet, then read until the client closes."""
    from mngr.agents.interact.ssh_connection import build_refusal_packet
    from mngr.cli.framework.terminal_text import strip_controls

    hint = f" ({strip_controls(error.hint)})" if error.hint else ""
    try:
        os.write(1, build_refusal_packet(strip_controls(error.message) + hint))
        while select.select([0], [], [], 5)[0] and os.read(0, 65536):
            pass  # A client that is still sending would miss the reason.
    except OSError:
        pass
