"""`mngr help` and `--help`, written from the declarations of the commands."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework.command_spec import COMMON_OPTIONS, Argument, CommandSpec, Option
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, HELP_SECTIONS, get_module_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="help",
    summary=COMMANDS["help"][1],
    description="Explains a command, a group of commands, or one of the topics: addresses, exit-codes, filters, formats, states.",
    arguments=(
        Argument(name="TOPIC", help="a command or a topic", required=False, is_repeatable=True, complete="commands"),
    ),
    examples=(("mngr help create", "every option of create"), ("mngr help states", "what the states mean")),
    can_run_without_settings=True,
)
_COMMAND_WIDTH = max(map(len, COMMANDS))


def run(cli: Cli, args: Args) -> int:
    """Print help on a command, a group or a topic, or the overview."""
    import importlib
    import sys

    words = " ".join(args["topic"])
    topic = ALIASES.get(words, words)
    if not topic:
        print_overview(sys.stdout)
    elif topic in COMMANDS:
        print_command(importlib.import_module(get_module_name(topic)).COMMAND, sys.stdout)
    elif topic in COMMAND_GROUPS:
        _print_group(topic, sys.stdout)
    else:
        from mngr.cli.framework.topics import TOPICS

        if topic not in TOPICS:
            for module in cli.context.hooks.list_commands():
                if topic == module.COMMAND.name:
                    print_command(module.COMMAND, sys.stdout)
                    return 0
            known = [*COMMANDS, *TOPICS, *COMMAND_GROUPS]
            hint = f"topics: {', '.join(TOPICS)}; commands: mngr help"
            raise UsageError(f"there is no help on {words!r}", suggest_closest(words, known) or hint)
        cli.print_data(TOPICS[topic])
    return 0


def _print_group(group: str, stream: TextIO) -> None:
    """Write the text of `mngr GROUP --help`: its commands, and the first example of each."""
    import importlib

    names = [name for name in COMMANDS if name.startswith(f"{group} ")]
    stream.write(f"Usage: mngr {group} COMMAND [OPTIONS]\n\nCommands\n")
    for name in names:
        stream.write(f"  mngr {name:{_COMMAND_WIDTH}}  {COMMANDS[name][1]}\n")
    stream.write("\nExamples\n")
    for name in names:
        for line, explanation in importlib.import_module(get_module_name(name)).COMMAND.examples[:1]:
            stream.write(f"  {line}\n      {explanation}\n")


def print_overview(stream: TextIO) -> None:
    """Write the text of `mngr --help`."""
    write = stream.write
    write("mngr runs coding agents, many at a time, each with its own copy of your repository.\n\n")
    write("Usage: mngr COMMAND [NAME] [OPTIONS]\n")
    aliases = {name: alias for alias, name in ALIASES.items()}
    for section in HELP_SECTIONS:
        write(f"\n{section}\n")
        for name, (command_section, summary, _) in COMMANDS.items():
            if command_section == section:
                label = f"{name}, {aliases[name]}" if name in aliases else name
                write(f"  {label:{_COMMAND_WIDTH}}  {summary}\n")
    write("\nOptions everywhere\n")
    for option in COMMON_OPTIONS:
        write(_format_option(option))
    write("\nStart here\n")
    write("  mngr create foo -- make test   an agent that runs a command in a worktree of its own\n")
    write("  mngr list                      what runs, and why we think so\n")
    write("  mngr help COMMAND              every option, with examples\n")


def print_command(command: CommandSpec, stream: TextIO) -> None:
    """Write the text of `mngr COMMAND --help`."""
    write = stream.write
    write(f"Usage: {format_usage(command)}\n\n{command.summary[:1].upper()}{command.summary[1:]}.\n")
    if command.description:
        write(f"\n{command.description}\n")
    if command.arguments or command.trailing_help:
        write("\nArguments\n")
        for argument in command.arguments:
            write(f"  {argument.name:28} {argument.help}\n")
        if command.trailing_help:
            write(f"  {'-- ' + command.trailing_help:28} what follows is passed on as it is\n")
    if command.options:
        write("\nOptions\n")
        for option in command.options:
            write(_format_option(option))
    write("\nOptions everywhere\n")
    for option in COMMON_OPTIONS:
        write(_format_option(option))
    if command.examples:
        write("\nExamples\n")
        for line, explanation in command.examples:
            write(f"  # {explanation}\n  {line}\n")


def format_usage(command: CommandSpec) -> str:
    """Return one line with the command, its arguments and its options."""
    parts = ["mngr", command.name]
    for argument in command.arguments:
        text = argument.name + ("…" if argument.is_repeatable else "")
        parts.append(text if argument.required else f"[{text}]")
    if command.options:
        parts.append("[OPTIONS]")
    if command.trailing_help:
        parts.append(f"[-- {command.trailing_help}]")
    return " ".join(parts)


def _format_option(option: Option) -> str:
    """Return the help line of one option."""
    flags = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
    text = option.help
    if option.choices:
        text += f" ({'|'.join(option.choices)})"
    if option.is_repeatable:
        text += "; may be repeated"
    if option.default not in (None, False, "", ()) and option not in COMMON_OPTIONS:
        text += f" (default: {option.default})"
    if len(flags) > 28:
        return f"  {flags}\n  {'':28} {text}\n"
    return f"  {flags:28} {text}\n"
