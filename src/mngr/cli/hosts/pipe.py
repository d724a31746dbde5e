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
        "Speaks the ssh protocol on standard input and output: ssh runs it as ProxyCommand, and mngr ssh-config writes\n"
        "the entries for that. An sshd is started for this one connection, through the host's own pipe, and listens\n"
        "nowhere. It takes a key of this home only. With an agent's address, sessions are in its work dir with its\n"
        "environment, as with mngr exec; with @HOST they are those of the user there."
    ),
    arguments=(Argument(name="ADDRESS", help="an agent's name or id, or @HOST", complete="agents"),),
    examples=(
        (
            "ssh -o ProxyCommand='mngr pipe foo' foo",
            "what the entries of mngr ssh-config do, without the keys",
        ),
        ("mngr pipe @box < /dev/null", "see which sshd a host has"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Serve one ssh connection; send an error that comes before it to the client as well."""
    if sys.stdin.isatty():
        raise UsageError("mngr pipe is run by ssh, not by people", "see: mngr ssh-config")
    try:
        return cli.fleet.pipe(args["address"])
    except MngrError as error:
        if not isinstance(error, ConnectionLost):
            _send_error(error)
        raise


def _send_error(error: MngrError) -> None:
    """Send the error to the ssh client as a disconnect packet, then read until the client closes."""
    from mngr.agents.interact.pipe import build_refusal_packet
    from mngr.cli.framework.terminal_text import strip_controls

    hint = f" ({strip_controls(error.hint)})" if error.hint else ""
    try:
        os.write(1, build_refusal_packet(strip_controls(error.message) + hint))
        while select.select([0], [], [], 5)[0] and os.read(0, 65536):
            pass  # A client that is still sending would miss the reason.
    except OSError:
        pass
