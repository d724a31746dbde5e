"""Runs one command: parses its words, calls it, and returns the exit code."""

from __future__ import annotations

import os
import sys

from mngr.agents.context import Context
from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.base.trust import agent_directories
from mngr.cli.framework.cli_invocation import Cli
from mngr.cli.framework.command_table import COMMANDS_FOR_ANY_DIRECTORY
from mngr.cli.framework.parse import Args, parse_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from mngr.cli.framework.command_spec import CommandSpec


def execute_command(cli: Cli, module: ModuleType) -> int:
    """Parse the words, run the command or print its help, and return the exit code."""
    command = module.COMMAND
    if cli.wants_help:
        from mngr.cli.framework.help import print_command

        print_command(command, sys.stdout)
        return 0
    if cli.wants_version:
        print_version(cli)
        return 0
    args = parse_words(command, cli.words, _read_defaults(cli, command))
    cli.quiet, cli.format = args["quiet"], args["format"]
    if args["verbose"]:
        shell.tracer = cli.print_message
    if cli.format not in command.formats:
        _check_format(cli.format)
    if cli.name not in COMMANDS_FOR_ANY_DIRECTORY:
        agent_directories.refuse_agents_directory(cli.context.cwd)
    try:
        return int(module.run(cli, args) or 0)
    finally:
        if cli._context is not None:
            refresh_ssh_entries(cli._context)
            cli._context.close()


def print_version(cli: Cli) -> None:
    """Print the version of mngr and, for programs, of Python."""
    import platform

    from mngr import __version__
    from mngr.cli.framework.render import render_item

    render_item(cli, {"version": __version__, "python": platform.python_version()}, f"mngr {__version__}")


def refresh_ssh_entries(context: Context) -> None:
    """Rewrite the user's ssh entries if they no longer match the agents."""
    if context.is_ssh_config_stale():
        from mngr.agents.interact import ssh_config

        ssh_config.refresh_config(context)


def _read_defaults(cli: Cli, command: CommandSpec) -> dict[str, object]:
    """Return the command's default options from the settings."""
    try:
        defaults = cli.context.settings.get_table(f"commands.{command.name.replace(' ', '.')}")
        _note_ignored_settings(cli, command)
        if command.name != "tmr run":
            return defaults
        merged = {**cli.context.settings.get_table("tmr"), **defaults}
        return {key: value for key, value in merged.items() if key != "merge_tool"}
    except MngrError:
        if not command.can_run_without_settings:
            raise
        return {}


def _note_ignored_settings(cli: Cli, command: CommandSpec) -> None:
    """Tell the user which settings of the project do not count for this command."""
    prefixes = [f"commands.{command.name.replace(' ', '.')}."]
    if command.name == "create":
        prefixes += ["agents.", "templates.", "tmux."]
    if command.name.startswith("tmr "):
        prefixes += ["tmr.", "policy.", "sandbox."]
    for key, layer in cli.context.settings.ignored.items():
        if key.startswith(tuple(prefixes)):
            cli.print_message(
                f"mngr ignores {key} in {layer.path}; to use it, set it yourself: mngr config set --user {key} VALUE"
            )


def read_names(args: Args, key: str = "name") -> list[str]:
    """Return the names on the command line, each once, with `-` replaced by those on standard input."""
    words: list[str] = args[key]
    if "-" not in words:
        return list(dict.fromkeys(words))
    stdin_names = [line.strip() for line in sys.stdin.read().split("\n") if line.strip()]
    names = [expanded for name in words for expanded in (stdin_names if name == "-" else [name])]
    if not names:
        raise UsageError("standard input names no agent", "for example: mngr list --ids | mngr stop -")
    return list(dict.fromkeys(names))


def is_interactive() -> bool:
    """True when standard input and output are a terminal that can draw."""
    return (
        sys.stdin is not None
        and sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def _check_format(text: str) -> None:
    """Raise UsageError unless the text is a known format or a template."""
    if text in ("human", "json", "jsonl"):
        return
    from mngr.cli.framework.render import list_template_fields

    if list_template_fields(text):
        return
    raise UsageError(f"--format cannot be {text!r}", "use human, json, jsonl, or a template such as '{name} {state}'")
