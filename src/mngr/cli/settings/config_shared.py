"""The code that the `config` commands share."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework.command_spec import Option
from mngr.cli.framework.command_table import COMMANDS, get_module_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.agents.context import Context
    from mngr.cli.framework.command_spec import CommandSpec
    from mngr.cli.framework.parse import Args

SCOPE_OPTIONS = (
    Option(flags=("--user",), help="Use your own settings file in mngr's home, which applies to every project"),
    Option(flags=("--project",), help="Use .mngr/settings.toml, which everybody in this project shares"),
    Option(flags=("--local",), help="Use .mngr/settings.local.toml, your own settings for this project"),
)


def find_scope(args: Args) -> str | None:
    """Return the requested scope, or None; raise UsageError if there are several."""
    chosen = [scope for scope in ("user", "project", "local") if args[scope]]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} cannot be combined", "leave out one of them")
    return chosen[0] if chosen else None


def check_option(ctx: Context, key: str, value: Any) -> None:
    """Raise UsageError if a key of [commands], [templates] or [tmr] is not an option with that value."""
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
    """Return the declaration of a built-in command or a plugin's command; raise UsageError if there is none."""
    import importlib

    if name in COMMANDS:
        command: CommandSpec = importlib.import_module(get_module_name(name)).COMMAND
        return command
    plugin_commands: dict[str, CommandSpec] = {
        module.COMMAND.name: module.COMMAND for module in ctx.hooks.list_commands()
    }
    if name not in plugin_commands:
        raise UsageError(
            f"mngr has no command {name!r}", suggest_closest(name, [*COMMANDS, *plugin_commands]) or "see: mngr --help"
        )
    return plugin_commands[name]


def format_value(value: Any) -> str:
    """Return a value for people: text as it is, other values as in a settings file."""
    if isinstance(value, str):
        return value
    import tomlkit

    return str(tomlkit.item(value).as_string())
