"""The command `mngr ssh-config`."""

from __future__ import annotations

import os

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="ssh-config",
    summary=COMMANDS["ssh-config"][1],
    description=(
        "One entry for every agent, NAME.mngr, and for every other host in use, HOST.PROVIDER.mngr; ssh, scp, sftp, rsync,\n"
        "git and editors take these names wherever they take a host's. No host is asked. With --write they go to a file\n"
        "in mngr's home, which follows the agents from then on; your own ssh configuration is left to you."
    ),
    options=(Option(flags=("--write",), help="write the file, and say which line to add to ~/.ssh/config"),),
    examples=(
        ("mngr ssh-config", "see the entries"),
        ("mngr ssh-config --write", "write them to ~/.mngr/ssh/config, for ssh to include"),
        ("mngr ssh-config --format '{alias} {user}'", "only the names"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the ssh entries, or write them to a file."""
    if args["write"]:
        path = cli.fleet.write_ssh_config()
        line = f"Include {_quote_path(path)}"
        render.render_item(cli, {"path": path, "include": line}, path)
        if not _is_included(path):
            cli.print_message(f"add this line at the top of ~/.ssh/config, once:\n{line}")
        return 0
    entries = cli.fleet.list_ssh_entries()
    human = cli.fleet.ssh_config() if cli.format == "human" else None
    render.render_rows(cli, "entries", [entry.to_dict() for entry in entries], human)
    return 0


def _quote_path(path: str) -> str:
    return f'"{path}"' if " " in path else path


def _is_included(path: str) -> bool:
    """True when ~/.ssh/config includes the file."""
    try:
        with open(os.path.expanduser("~/.ssh/config"), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    home_relative_path = path.replace(os.path.expanduser("~"), "~", 1)
    return any(
        words[0].lower() == "include" and (path in line or home_relative_path in line)
        for line in text.splitlines()
        if (words := line.split())
    )
