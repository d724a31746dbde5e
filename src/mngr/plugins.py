"""Finds plugins without paying for it: no plugin installed, no pluggy imported."""

from __future__ import annotations

import os
import sys

from mngr.errors import MngrError
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from mngr.agents.protocol import AgentKind
    from mngr.host import Provider
    from mngr.paths import Home

GROUP = "[mngr]"
KINDS = ("command", "player")


class Plugin(Record):
    """An entry point in the group `mngr`."""

    name: str
    value: str  # module or module:object
    package: str  # name and version as its folder has them


def find_plugins(path: list[str] | None = None) -> list[Plugin]:
    """Every plugin on the import path. importlib.metadata would take 35 ms for the same."""
    found: dict[str, Plugin] = {}
    for place in sys.path if path is None else path:
        try:
            folders = [entry.path for entry in os.scandir(place or ".") if entry.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for folder in folders:
            try:
                with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except OSError:
                continue
            if GROUP not in text:
                continue
            package = os.path.basename(folder).rsplit(".", 1)[0].replace("-", " ")
            for name, value in _section(text):
                found.setdefault(name, Plugin(name=name, value=value, package=package))
    return [found[name] for name in sorted(found)]


def _section(text: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == GROUP
        elif inside and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            rows.append((name.strip(), value.strip()))
    return rows


class Hooks:
    """The loaded plugins; every question has an answer without any."""

    def __init__(self, plugins: list[Plugin]) -> None:
        self.plugins = plugins
        self._manager: Any = None

    def manager(self) -> Any:
        """pluggy's manager with all plugins registered; None when there are none."""
        if self._manager is None and self.plugins:
            import importlib

            import pluggy

            from mngr import hookspecs

            manager = pluggy.PluginManager("mngr")
            manager.add_hookspecs(hookspecs)
            for plugin in self.plugins:
                module, _, attribute = plugin.value.partition(":")
                try:
                    loaded: Any = importlib.import_module(module)
                    manager.register(getattr(loaded, attribute) if attribute else loaded, plugin.name)
                except Exception as error:
                    raise MngrError(
                        f"the plugin {plugin.name!r} ({plugin.package}) cannot be loaded: {error}",
                        f"update or uninstall it: pip uninstall {plugin.package.split()[0]}",
                    ) from error
            self._manager = manager
        return self._manager

    def tell(self, hook: str, **values: Any) -> None:
        """Let every plugin know."""
        if self.plugins:
            getattr(self.manager().hook, hook)(**values)

    def _gather(self, hook: str, **values: Any) -> list[Any]:
        if not self.plugins:
            return []
        return [item for answer in getattr(self.manager().hook, hook)(**values) for item in answer]

    def providers(self, home: Home) -> list[Provider]:
        """What plugins add to the built-in providers."""
        return self._gather("mngr_providers", home=home)

    def commands(self) -> list[ModuleType]:
        """What plugins add to the built-in commands."""
        return self._gather("mngr_commands")

    def kinds(self) -> list[AgentKind]:
        """What plugins add to the built-in kinds."""
        return self._gather("mngr_kinds")

    def step(self, operation: str, agent: Any) -> Callable[[str], None]:
        """A function that announces each step of an operation."""

        def announce(step: str) -> None:
            self.tell("mngr_step", operation=operation, step=step, agent=agent)

        return announce
