"""Lists every installed plugin and what it adds."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.plugins.loader import LoadedPlugins, Plugin


class PluginView(Struct):
    """A plugin and what it adds. `error` says why it cannot be used."""

    name: str
    package: str
    module: str
    providers: list[str] = []
    kinds: list[str] = []
    commands: list[str] = []
    hooks: list[str] = []
    error: str | None = None
    hint: str | None = None


def list_plugins(ctx: Context) -> list[PluginView]:
    """Return a view of each plugin. mngr loads each one separately, so a broken one does not hide the others."""
    return [_inspect_plugin(ctx, plugin) for plugin in ctx.hooks.plugins]


def _inspect_plugin(ctx: Context, plugin: Plugin) -> PluginView:
    view = PluginView(name=plugin.name, package=plugin.package, module=plugin.target)
    loaded = LoadedPlugins([plugin], ctx.home, ctx.note)
    try:
        manager = loaded.find_plugin_manager()
        return view.replace(
            providers=[provider.name for provider in loaded.list_providers(lambda: ctx.settings)],
            kinds=[kind.name for kind in loaded.list_kinds()],
            commands=[module.COMMAND.name for module in loaded.list_commands()],
            hooks=sorted(caller.name for caller in manager.get_hookcallers(manager.get_plugin(plugin.name)) or []),
        )
    except MngrError as error:
        return view.replace(error=error.message, hint=error.hint)
