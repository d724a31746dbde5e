"""What the `config` commands share."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework.command_table import COMMANDS, get_module_name
from mngr.cli.framework.spec import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.agents.context import Context
    from mngr.cli.framework.parse import Args
    from mngr.cli.framework.spec import CommandSpec

SCOPE_OPTIONS = (
    Option(flags=("--user",), help="the file in mngr's home: for you, in every project"),
    Option(flags=("--project",), help=".mngr/settings.toml: for everyone, in this project"),
    Option(flags=("--local",), help=".mngr/settings.local.toml: for you, in this project"),
)


def find_scope(args: Args) -> str | None:
    """The scope asked for, None when none was."""
    chosen = [scope for scope in ("user", "project", "local") if args[scope]]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    return chosen[0] if chosen else None


def check_option(ctx: Context, key: str, value: Any) -> None:
    """UsageError when `key` is of [commands], [templates] or [tmr] and the command has no such option, or not that value."""
    from mngr.cli.framework.parse import parse_words

    table, _, rest = key.removesuffix("+=").partition(".")
    if table not in ("commands", "templates", "tmr") or rest == "merge_tool":
        return
    words = rest.split(".")
    if table == "tmr":
        command, option = _get_command(ctx, "tmr run"), rest
    elif table == "templates":
        command, option = _get_command(ctx, "create"), ".".join(words[1:])
    else:
        length = 2 if " ".join(words[:2]) in COMMANDS else 1
        command, option = _get_command(ctx, " ".join(words[:length])), ".".join(words[length:])
    try:
        parse_words(command, ["--help"], {option: value})
    except UsageError as error:
        name = f"commands.{command.name}.{option}"
        raise UsageError(error.message.replace(name, key.removesuffix("+=")), error.hint) from None


def _get_command(ctx: Context, name: str) -> CommandSpec:
    import importlib

    if name in COMMANDS:
        found: CommandSpec = importlib.import_module(get_module_name(name)).COMMAND
        return found
    added: dict[str, CommandSpec] = {module.COMMAND.name: module.COMMAND for module in ctx.hooks.list_commands()}
    if name not in added:
        raise UsageError(
            f"mngr has no command {name!r}", suggest_closest(name, [*COMMANDS, *added]) or "see: mngr --help"
        )
    return added[name]


def format_value(value: Any) -> str:
    """A value as people read it: text as it is, all else as in the file."""
    if isinstance(value, str):
        return value
    import tomlkit

    return str(tomlkit.item(value).as_string())
