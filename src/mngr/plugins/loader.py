"""Finds and loads plugins. Without an installed plugin, pluggy is not imported."""

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
CODING_KINDS = (
    "claude",
    "codex",
    "opencode",
    "gemini",
    "pi",
    "aider",
)  # the kinds that a custom kind can have as its parent
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
    "template": "mngr.providers.custom_commands.provider:TemplateProvider",
}


class Plugin(Struct):
    """An entry point in the group `mngr`."""

    name: str
    target: str  # module or module:object
    package: str  # name and version, from the name of its metadata folder


def list_plugins(path: list[str] | None = None) -> list[Plugin]:
    """Return every plugin on the import path. `importlib.metadata` would take 35 ms for the same."""
    plugins: dict[str, Plugin] = {}
    for directory in sys.path if path is None else path:
        try:
            folders = [
                entry.path for entry in os.scandir(directory or ".") if entry.name.endswith((".dist-info", ".egg-info"))
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
                plugins.setdefault(name, Plugin(name=name, target=value, package=package))
    return [plugins[name] for name in sorted(plugins)]


def _parse_entry_points(text: str) -> list[tuple[str, str]]:
    """Return the name and target of each entry point in the section `[mngr]`."""
    rows: list[tuple[str, str]] = []
    in_section = False
    for raw_line in text.splitlines():
        line = raw_line.strip()
        if line.startswith("["):
            in_section = line == ENTRY_POINT_SECTION
        elif in_section and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            rows.append((name.strip(), value.partition("[")[0].strip()))  # The text in [] names extras.
    return rows


class LoadedPlugins:
    """The installed plugins. Without plugins, every method returns an empty result."""

    def __init__(self, plugins: list[Plugin], home: Home, note: Callable[[str], None]) -> None:
        self.plugins = plugins
        self._home = home
        self._note = note
        self._manager: Any = None

    def find_plugin_manager(self) -> Any:
        """Return pluggy's manager with all plugins registered, or None when there are no plugins."""
        if self._manager is None and self.plugins:
            import pluggy

            from mngr.plugins import hooks

            manager = pluggy.PluginManager("mngr")
            manager.add_hookspecs(hooks)
            for plugin in self.plugins:
                try:
                    manager.register(_import_target(plugin.target), plugin.name)
                    manager.check_pending()  # A hook with a misspelt name would never be called.
                except Exception as error:
                    package = plugin.package.split()[0]
                    raise MngrError(
                        f"the plugin {plugin.name!r} ({plugin.package}) cannot be loaded: {error}",
                        f"update it: pip install -U {package}; or uninstall it: pip uninstall {package}",
                    ) from error
            self._manager = manager
        return self._manager

    def _call_hook(self, hook: str, **values: Any) -> list[Any]:
        """Return the answer of every plugin. An exception of a plugin becomes a MngrError that names the hook."""
        try:
            return list(getattr(self.find_plugin_manager().hook, hook)(**values))
        except MngrError:
            raise
        except Exception as error:
            raise MngrError(
                f"a plugin failed in {hook}: {type(error).__name__}: {error}",
                "find the plugin, then update or uninstall it: mngr plugin list",
            ) from error

    def _collect_results(self, hook: str, **values: Any) -> list[Any]:
        """Return the items of all plugins' answers in one list."""
        return [item for answer in self._call_hook(hook, **values) for item in answer] if self.plugins else []

    def notify(self, hook: str, **values: Any) -> None:
        """Tell every plugin about a finished operation. A plugin's failure is only reported."""
        if self.plugins:
            try:
                self._call_hook(hook, home=self._home, **values)
            except MngrError as error:
                self._note(error.message)

    def make_step_announcer(self, operation: str, agent: Any) -> Callable[[str], None]:
        """Return a function that announces each step of an operation. It raises the error of a plugin that objects."""

        def announce(step: str) -> None:
            if self.plugins:
                self._call_hook("mngr_step", home=self._home, operation=operation, step=step, agent=agent)

        return announce

    def list_providers(self, settings: Callable[[], Settings]) -> list[Provider]:
        """Return the providers that plugins add. The settings are read only if there is a plugin."""
        return self._collect_results("mngr_providers", home=self._home, settings=settings()) if self.plugins else []

    def list_kinds(self) -> list[AgentKind]:
        """Return the agent kinds that plugins add."""
        return self._collect_results("mngr_kinds")

    def list_commands(self) -> list[ModuleType]:
        """Return the commands that plugins add."""
        return self._collect_results("mngr_commands")


def _import_target(path: str) -> Any:
    """Return the object that an entry point names: `module` or `module:name.name`."""
    import importlib

    module, _, names = path.partition(":")
    target: Any = importlib.import_module(module)
    for name in names.split(".") if names else []:
        target = getattr(target, name)
    return target
