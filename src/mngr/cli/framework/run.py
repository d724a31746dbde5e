"""Runs one command: parse, call, and turn what it returns into an exit code."""

from __future__ import annotations

import os
import sys

from mngr.agents.context import Context
from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.command_line import Cli, before_rest
from mngr.cli.framework.parse import Args, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from mngr.cli.framework.spec import Command


def execute(cli: Cli, module: ModuleType) -> int:
    """Parse, run, and turn what the command returns into an exit code."""
    command = module.COMMAND
    wants_help = any(word in ("-h", "--help") for word in before_rest(cli.words))
    if wants_help:
        from mngr.cli.framework.help import print_command

        print_command(command, sys.stdout)
        return 0
    args = parse(command, cli.words, _defaults(cli, command))
    cli.quiet, cli.format = args["quiet"], args["format"]
    Cli.chosen = cli.format
    if args["verbose"]:
        shell.tracer = cli.say
    if cli.format not in command.formats:
        _check_format(cli.format)
    try:
        return int(module.run(cli, args) or 0)
    finally:
        if cli._context is not None:
            refresh_ssh_entries(cli._context)
            cli._context.close()


def refresh_ssh_entries(context: Context) -> None:
    """Keep the user's entries for ssh up to date with the agents there are."""
    if context.are_ssh_entries_stale():
        from mngr.agents.interact import ssh_config

        ssh_config.refresh(context)


def _defaults(cli: Cli, command: Command) -> dict[str, Any]:
    try:
        found = cli.context.settings.table(f"commands.{command.name.replace(' ', '.')}")
        if command.name != "tmr run":
            return found
        every = {**cli.context.settings.table("tmr"), **found}
        return {key: value for key, value in every.items() if key != "merge_tool"}
    except MngrError:
        if not command.mends:
            raise
        return {}


def names_of(args: Args, key: str = "name") -> list[str]:
    """The names given, with `-` replaced by those on standard input."""
    given: list[str] = args[key]
    if "-" not in given:
        return list(dict.fromkeys(given))
    read = [line.strip() for line in sys.stdin.read().split("\n") if line.strip()]
    found = [n for name in given for n in (read if name == "-" else [name])]
    if not found:
        raise UsageError("standard input names no agent", "for example: mngr list --ids | mngr stop -")
    return list(dict.fromkeys(found))


def is_terminal() -> bool:
    """Whether a person is at both ends."""
    return (
        sys.stdin is not None
        and sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def _check_format(text: str) -> None:
    if text in ("human", "json", "jsonl"):
        return
    from mngr.cli.framework.render import fields

    if fields(text):
        return
    raise UsageError(
        f"--format cannot be {text!r}", "human, json, jsonl, or a template such as '{name} {state}'"
    )
