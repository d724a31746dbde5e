"""`mngr help` and `--help`, written from the declarations of the commands."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework.command_spec import COMMON_OPTIONS, Argument, CommandSpec, Option
from mngr.cli.framework.command_table import (
    ALIASES,
    COMMAND_GROUPS,
    COMMANDS,
    EVERYDAY_COMMANDS,
    HELP_SECTIONS,
    get_module_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="help",
    summary=COMMANDS["help"][1],
    description=(
        "The groups of commands are agents, work, lifecycle, tests and setup. `mngr help all` lists all commands. The "
        "topics are addresses, exit-codes, filters, formats and states."
    ),
    arguments=(
        Argument(
            name="TOPIC",
            help="The command, group of commands or topic to explain",
            required=False,
            is_repeatable=True,
            complete="commands",
        ),
    ),
    examples=(
        ("mngr help create", "Explain every option of create"),
        ("mngr help lifecycle", "List the commands that stop, start, copy and remove agents"),
        ("mngr help states", "Explain what the states mean"),
    ),
    can_run_without_settings=True,
)
_COMMAND_WIDTH = max(map(len, COMMANDS))
_TERM_WIDTH = 26  # The columns of flags and arguments; their texts begin after them.
_MAX_TEXT_WIDTH = 100  # Longer lines are hard to read.


def run(cli: Cli, args: Args) -> int:
    """Print help on a command, a group or a topic, or the overview."""
    import sys

    words = " ".join(args["topic"])
    topic = ALIASES.get(words, words)
    if not topic:
        print_overview(sys.stdout)
    elif topic in COMMANDS:
        print_command(_load_command(topic), sys.stdout)
    elif topic in COMMAND_GROUPS:
        _print_group(topic, sys.stdout)
    elif topic in HELP_SECTIONS or topic == "all":
        _print_sections(list(HELP_SECTIONS) if topic == "all" else [topic], sys.stdout)
    else:
        _print_topic(cli, topic)
    return 0


def _print_topic(cli: Cli, topic: str) -> None:
    """Print a topic or the help of a plugin's command; raise UsageError if there is neither."""
    import sys

    from mngr.cli.framework.topics import TOPICS

    if topic in TOPICS:
        cli.print_data(TOPICS[topic])
        return
    for module in cli.context.hooks.list_commands():
        if topic == module.COMMAND.name:
            print_command(module.COMMAND, sys.stdout)
            return
    known = [*COMMANDS, *TOPICS, *COMMAND_GROUPS, *HELP_SECTIONS]
    hint = f"topics: {', '.join(TOPICS)}; all commands: mngr help all"
    raise UsageError(f"there is no help on {topic!r}", suggest_closest(topic, known) or hint)


def _load_command(name: str) -> CommandSpec:
    import importlib

    command: CommandSpec = importlib.import_module(get_module_name(name)).COMMAND
    return command


def _print_group(group: str, stream: TextIO) -> None:
    """Write the text of `mngr GROUP --help`: its commands, and the first example of each."""
    names = [name for name in COMMANDS if name.startswith(f"{group} ")]
    stream.write(f"Usage: mngr {group} COMMAND [OPTIONS]\n\nCommands\n")
    width = max(map(len, names)) + 2
    for name in names:
        stream.write(f"  mngr {name:{width}}{COMMANDS[name][1]}\n")
    stream.write("\nExamples\n")
    for name in names:
        for line, explanation in _load_command(name).examples[:1]:
            stream.write(f"  # {explanation}\n  {line}\n")
    stream.write(f"\nExplain one command: mngr help {names[0]}\n")


def _print_sections(sections: list[str], stream: TextIO) -> None:
    """Write the commands of some sections, each with its summary."""
    for section in sections:
        stream.write(f"{HELP_SECTIONS[section]}\n")
        for name, (command_section, summary, _) in COMMANDS.items():
            if command_section == section:
                stream.write(f"  {name:{_COMMAND_WIDTH}}  {summary}\n")
        stream.write("\n")
    stream.write("Explain one command: mngr help COMMAND\n")


def print_overview(stream: TextIO) -> None:
    """Write the text of `mngr --help`, which fits on a terminal of 80 columns and 24 lines."""
    write = stream.write
    write("mngr runs coding agents, each with its own copy of your project.\n\n")
    write("Usage: mngr COMMAND [NAME] [OPTIONS]\n")
    write("Start here: mngr create fix claude -m 'make the failing tests pass'\n\n")
    write("Everyday commands\n")
    aliases = {name: alias for alias, name in ALIASES.items()}
    for name in EVERYDAY_COMMANDS:
        label = f"{name}, {aliases[name]}" if name in aliases else name
        write(f"  {label:15}{COMMANDS[name][1]}\n")
    write(f"\nMore commands: mngr help GROUP ({', '.join(HELP_SECTIONS)})\n")
    write("Options and examples of a command: mngr help COMMAND\n")


def print_command(command: CommandSpec, stream: TextIO) -> None:
    """Write the text of `mngr COMMAND --help`."""
    write = stream.write
    width = _choose_text_width()
    write(f"Usage: {format_usage(command)}\n\n{command.summary}.\n")
    if command.description:
        write(f"\n{wrap_paragraphs(command.description, width)}\n")
    if command.examples:
        write("\nExamples\n" + "".join(f"  # {text}\n  {line}\n" for line, text in command.examples))
    if command.arguments or command.trailing:
        write("\nArguments\n")
        rows = [(argument.name, argument.help) for argument in command.arguments]
        for term, text in [*rows, *format_trailing(command)]:
            write(_format_entry(term, text, width))
    for heading, options in [*group_options(command.options), ("Common options", list(COMMON_OPTIONS))]:
        write(f"\n{heading}\n")
        for option in options:
            write(_format_entry(format_flags(option), format_option_help(option), width))


def format_usage(command: CommandSpec) -> str:
    """Return one line with the command, its arguments and its options."""
    parts = ["mngr", command.name]
    for argument in command.arguments:
        text = argument.name + ("…" if argument.is_repeatable else "")
        parts.append(text if argument.required else f"[{text}]")
    if command.options:
        parts.append("[OPTIONS]")
    if command.trailing:
        parts.append(f"[-- {command.trailing.name}]")
    return " ".join(parts)


def format_trailing(command: CommandSpec) -> list[tuple[str, str]]:
    """Return the entry for the words after `--`, or nothing if the command takes none."""
    if not command.trailing:
        return []
    return [(f"-- {command.trailing.name}", command.trailing.help)]


def group_options(options: tuple[Option, ...]) -> list[tuple[str, list[Option]]]:
    """Return the options below their headings, in the order in which the headings appear first."""
    groups: dict[str, list[Option]] = {}
    for option in options:
        groups.setdefault(option.group, []).append(option)
    return list(groups.items())


def format_flags(option: Option) -> str:
    """Return an option's flags and its metavar, as a user types them."""
    return ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")


def format_option_help(option: Option) -> str:
    """Return an option's help with its choices, its default and whether it may be repeated."""
    text = option.help
    if option.choices and not all(choice in text for choice in option.choices):
        text += f": {', '.join(option.choices)}"
    details = ["may be repeated"] if option.is_repeatable else []
    if "(default:" not in text and (default := format_default(option)):
        details.append(f"default: {default}")
    return f"{text} ({'; '.join(details)})" if details else text


def format_default(option: Option) -> str:
    """Return an option's default for people: `1h`, `on`, or nothing if the default is off or empty."""
    if option.default in (None, False, "", ()):
        return ""
    if option.default is True:
        return f"on; turn it off with {option.flags[-1].replace('--', '--no-')}"
    if option.kind == "length":
        from mngr.base.time_format import format_duration

        return format_duration(option.default)
    return str(option.default)


def wrap_paragraphs(text: str, width: int) -> str:
    """Return text in lines of at most `width` columns. Lines that begin with a space stay as they are."""
    import textwrap

    lines: list[str] = []
    for line in text.split("\n"):
        lines += [line] if line.startswith(" ") or not line else textwrap.wrap(line, width, break_on_hyphens=False)
    return "\n".join(lines)


def _choose_text_width() -> int:
    """Return the columns for help: those of the terminal, but at most 100, and 80 where there is no terminal."""
    from mngr.cli.framework.terminal_text import get_width

    width = get_width()
    return 80 if width >= 10_000 else max(_TERM_WIDTH + 20, min(width, _MAX_TEXT_WIDTH))


def _format_entry(term: str, text: str, width: int) -> str:
    """Return the help lines of one argument or option."""
    import textwrap

    lines = textwrap.wrap(text, width - _TERM_WIDTH - 3, break_on_hyphens=False) or [""]
    first = f"  {term:{_TERM_WIDTH}} " if len(term) <= _TERM_WIDTH else f"  {term}\n{'':{_TERM_WIDTH + 3}}"
    return (first + f"\n{'':{_TERM_WIDTH + 3}}".join(lines)).rstrip() + "\n"
