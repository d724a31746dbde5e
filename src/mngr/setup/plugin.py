"""`plugin list`: every installed plugin and what it adds."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.base.errors import MngrError
from mngr.base.model import Record
from mngr.plugins.loader import Hooks, Plugin


class PluginView(Record):
    """A plugin and what it adds; `error` when it cannot be used."""

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
    """Look at each alone, so that a broken one does not hide the others."""
    return [_view(ctx, plugin) for plugin in ctx.hooks.plugins]


def _view(ctx: Context, plugin: Plugin) -> PluginView:
    view = PluginView(name=plugin.name, package=plugin.package, module=plugin.value)
    alone = Hooks([plugin], ctx.home, ctx.note)
    try:
        manager = alone.manager()
        return view.replace(
            providers=[provider.name for provider in alone.providers(lambda: ctx.settings)],
            kinds=[kind.name for kind in alone.kinds()],
            commands=[module.COMMAND.name for module in alone.commands()],
            hooks=sorted(
                caller.name for caller in manager.get_hookcallers(manager.get_plugin(plugin.name)) or []
            ),
        )
    except MngrError as error:
        return view.replace(error=error.message, hint=error.hint)
