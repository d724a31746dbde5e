"""`mngr plugin list`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import CommandSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.setup.plugin import PluginView

COMMAND = CommandSpec(
    name="plugin list",
    summary=COMMANDS["plugin list"][1],
    description="A plugin is an installed package with an entry point in the group mngr. See docs/reference/hooks.md.",
    examples=(("mngr plugin list", "what is installed, and what each adds"),),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Show the plugins; a broken one makes the command fail."""
    plugins = cli.fleet.list_plugins()
    lines = [(p.name, p.package, _format_additions(p)) for p in plugins]
    human = render.format_table(("NAME", "PACKAGE", "ADDS"), lines) if lines else "no plugins are installed"
    render.render_rows(cli, "plugins", [p.to_dict() for p in plugins], human)
    for plugin in plugins:
        if plugin.error is not None:
            raise MngrError(plugin.error, plugin.hint)
    return 0


def _format_additions(plugin: PluginView) -> str:
    if plugin.error is not None:
        return "nothing: it cannot be loaded"
    parts = [("provider", plugin.providers), ("kind", plugin.kinds), ("command", plugin.commands)]
    said = [f"{what} {name}" for what, names in parts for name in names]
    told = [name for name in plugin.hooks if name not in ("mngr_providers", "mngr_kinds", "mngr_commands")]
    return ", ".join([*said, *(f"hook {name}" for name in told)]) or "nothing"
