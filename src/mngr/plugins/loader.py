"""Finds plugins without paying for it: no plugin installed, no pluggy imported."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import MngrError
from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from mngr.base.config import Settings
    from mngr.base.paths import Home
    from mngr.host.protocol import Provider
    from mngr.kinds.protocol import AgentKind

ENTRY_POINT_SECTION = "[mngr]"
CODING_KINDS = ("claude", "codex", "opencode", "gemini", "pi", "aider")  # kinds that others can be made of
KIND_MODULES = {
    "command": "mngr.kinds.command",
    **{name: f"mngr.kinds.{name}.kind" for name in ("player", "mechanic", *CODING_KINDS)},
}
PROVIDER_CLASSES = {
    "ssh": "mngr.providers.ssh.provider:SshProvider",
    "docker": "mngr.providers.docker.provider:DockerProvider",
    "modal": "mngr.providers.modal.provider:ModalProvider",
    "ray": "mngr.providers.ray.provider:RayProvider",
    "slurm": "mngr.providers.slurm.provider:SlurmProvider",
    "template": "mngr.providers.template.provider:TemplateProvider",
}


class Plugin(Struct):
    """An entry point in the group `mngr`."""

    name: str
    target: str  # module or module:object
    package: str  # name and version as its folder has them


def list_plugins(path: list[str] | None = None) -> list[Plugin]:
    """Every plugin on the import path. importlib.metadata would take 35 ms for the same."""
    found: dict[str, Plugin] = {}
    for place in sys.path if path is None else path:
        try:
            folders = [
                entry.path for entry in os.scandir(place or ".") if entry.name.endswith((".dist-info", ".egg-info"))
            ]
        except OSError:
            continue
        for folder in folders:
            try:
                with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            if ENTRY_POINT_SECTION not in text:
                continue
            package = os.path.basename(folder).rsplit(".", 1)[0].replace("-", " ")
            for name, value in _parse_entry_points(text):
                found.setdefault(name, Plugin(name=name, target=value, package=package))
    return [found[name] for name in sorted(found)]


def _parse_entry_points(text: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == ENTRY_POINT_SECTION
        elif inside and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            rows.append((name.strip(), value.partition("[")[0].strip()))  # what stands in [] are extras
    return rows


class LoadedPlugins:
    """The loaded plugins; every question has an answer without any."""

    def __init__(self, plugins: list[Plugin], home: Home, note: Callable[[str], None]) -> None:
        self.plugins = plugins
        self._home = home
        self._note = note
        self._manager: Any = None

    def find_plugin_manager(self) -> Any:
        """pluggy's manager with all plugins registered; None when there are none."""
        if self._manager is None and self.plugins:
            import pluggy

            from mngr.plugins import hooks

            manager = pluggy.PluginManager("mngr")
            manager.add_hookspecs(hooks)
            for plugin in self.plugins:
                try:
                    manager.register(_import_target(plugin.target), plugin.name)
                    manager.check_pending()  # a hook with a misspelt name would never be called
                except Exception as error:
                    raise MngrError(
                        f"the plugin {plugin.name!r} ({plugin.package}) cannot be loaded: {error}",
                        f"update or uninstall it: pip uninstall {plugin.package.split()[0]}",
                    ) from error
            self._manager = manager
        return self._manager

    def _call_hook(self, hook: str, **values: Any) -> list[Any]:
        """Every plugin's answer; what a plugin raises becomes a MngrError that says whose fault it is."""
        try:
            return list(getattr(self.find_plugin_manager().hook, hook)(**values))
        except MngrError:
            raise
        except Exception as error:
            raise MngrError(
                f"a plugin failed in {hook}: {type(error).__name__}: {error}", "see: mngr plugin list"
            ) from error

    def _collect_results(self, hook: str, **values: Any) -> list[Any]:
        return [item for answer in self._call_hook(hook, **values) for item in answer] if self.plugins else []

    def notify(self, hook: str, **values: Any) -> None:
        """Let every plugin know of something that has happened; one that fails is named and undoes nothing."""
        if self.plugins:
            try:
                self._call_hook(hook, home=self._home, **values)
            except MngrError as error:
                self._note(error.message)

    def make_step_announcer(self, operation: str, agent: Any) -> Callable[[str], None]:
        """A function that announces each step of an operation; raises what a plugin objects with."""

        def announce(step: str) -> None:
            if self.plugins:
                self._call_hook("mngr_step", home=self._home, operation=operation, step=step, agent=agent)

        return announce

    def list_providers(self, settings: Callable[[], Settings]) -> list[Provider]:
        """What plugins add to the built-in providers; settings are read only if somebody asks."""
        return self._collect_results("mngr_providers", home=self._home, settings=settings()) if self.plugins else []

    def list_kinds(self) -> list[AgentKind]:
        """What plugins add to the built-in kinds."""
        return self._collect_results("mngr_kinds")

    def list_commands(self) -> list[ModuleType]:
        """What plugins add to the built-in commands."""
        return self._collect_results("mngr_commands")


def _import_target(value: str) -> Any:
    """The object that an entry point names: `module` or `module:name.name`."""
    import importlib

    module, _, names = value.partition(":")
    loaded: Any = importlib.import_module(module)
    for name in names.split(".") if names else []:
        loaded = getattr(loaded, name)
    return loaded
