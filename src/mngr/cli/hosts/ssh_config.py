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
        "The configuration contains a host name NAME.mngr for each agent and HOST.PROVIDER.mngr for each other host "
        "that mngr uses. You can use these names with ssh, scp, sftp, rsync, git and editors. mngr does not contact "
        "any host to print the configuration.\n"
        "With --write, mngr writes the configuration to a file in its home and keeps this file up to date. mngr does "
        "not change your own ssh configuration."
    ),
    options=(
        Option(
            flags=("--write",),
            help="Write the configuration to a file, and print the line that you must add to ~/.ssh/config",
        ),
    ),
    examples=(
        ("mngr ssh-config", "Print the ssh configuration"),
        ("mngr ssh-config --write", "Write the configuration to ~/.mngr/ssh/config"),
        ("mngr ssh-config --format '{alias} {user}'", "Print each host name with its user"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the ssh entries, or write them to a file."""
    if args["write"]:
        path = cli.fleet.write_ssh_config()
        line = f"Include {_quote_path(path)}"
        render.render_item(cli, {"path": path, "include": line}, path)
        if not _is_included(path):
            cli.print_message(f"add this line once, at the top of ~/.ssh/config:\n{line}")
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
