"""The command `mngr plugin list`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.setup.installed_plugins import PluginView

COMMAND = CommandSpec(
    name="plugin list",
    summary=COMMANDS["plugin list"][1],
    description="A plugin is an installed Python package with an entry point in the group mngr. "
    "docs/reference/hooks.md describes what a plugin can do.",
    examples=(
        (
            "mngr plugin list",
            "List the plugins with the providers, agent kinds, commands and hooks that each plugin adds",
        ),
    ),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Show the plugins; raise MngrError if one is broken."""
    plugins = cli.fleet.list_plugins()
    lines = [(plugin.name, plugin.package, _format_additions(plugin)) for plugin in plugins]
    human = render.format_table(("NAME", "PACKAGE", "ADDS"), lines) if lines else "no plugins are installed"
    render.render_rows(cli, "plugins", [plugin.to_dict() for plugin in plugins], human)
    for plugin in plugins:
        if plugin.error is not None:
            raise MngrError(plugin.error, plugin.hint)
    return 0


def _format_additions(plugin: PluginView) -> str:
    if plugin.error is not None:
        return "nothing, because mngr cannot load it"
    parts = [("provider", plugin.providers), ("kind", plugin.kinds), ("command", plugin.commands)]
    additions = [f"{label} {name}" for label, names in parts for name in names]
    hooks = [name for name in plugin.hooks if name not in ("mngr_providers", "mngr_kinds", "mngr_commands")]
    return ", ".join([*additions, *(f"hook {name}" for name in hooks)]) or "nothing"
