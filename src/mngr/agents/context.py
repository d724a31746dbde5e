"""What every operation works with: the home, the settings, the hosts, the kinds, the plugins."""

from __future__ import annotations

import os

from mngr.base import config, paths
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError, suggest_closest
from mngr.host import registry
from mngr.plugins.loader import CODING_KINDS, KIND_MODULES, PROVIDER_CLASSES, LoadedPlugins, list_plugins
from mngr.providers.local import LocalProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.base.config import Settings
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host, Provider
    from mngr.kinds.protocol import AgentKind


class Context:
    """One user's view of one home. Everything is made when it is first asked for."""

    def __init__(
        self,
        home: str | None = None,
        *,
        cwd: str | None = None,
        settings: list[str] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.home = paths.Home(home or paths.get_default_home())
        self.cwd = os.path.abspath(cwd) if cwd else paths.get_current_dir()
        self.note = note or (lambda text: None)
        self.ask: Callable[[str], bool] | None = None  # the person who could answer a question, if there is one
        self._assignments = settings or []
        self._settings: dict[str | None, Settings] = {}
        self._hooks: LoadedPlugins | None = None
        self._hosts: dict[tuple[str, str], Host] = {}
        self._providers: dict[str, Provider] = {}
        self._kinds: dict[str, AgentKind] = {}
        self.installed_libs: dict[Host, str] = {}  # hosts that have our programs, and where

    def resolve_path(self, text: str) -> str:
        """A path as the user means it: from the directory he is in."""
        return os.path.join(self.cwd, text.removeprefix("./"))

    @property
    def settings(self) -> Settings:
        """All layers of settings that apply here."""
        return self.load_project_settings(paths.find_project_root(self.cwd))

    def load_project_settings(self, root: str | None) -> Settings:
        """All layers of settings that apply to a project."""
        if root not in self._settings:
            self._settings[root] = config.load_settings(self.home.settings, root, self._assignments, dict(os.environ))
        return self._settings[root]

    def reload_settings(self) -> None:
        """Read the settings again when somebody next asks: a file of them has changed."""
        self._settings.clear()
        self._kinds.clear()

    def load_host_settings(self, host: Host, root: str) -> Settings:
        """All layers that apply to a project, be it on another host."""
        if host.is_local:
            return self.load_project_settings(root)
        try:
            text = host.read(os.path.join(root, paths.PROJECT_SETTINGS))
        except MngrError:
            return self.load_project_settings(None)
        return config.load_settings(
            self.home.settings,
            None,
            self._assignments,
            dict(os.environ),
            project=(f"{host.name}:{root}", text),
        )

    @property
    def hooks(self) -> LoadedPlugins:
        """The installed plugins."""
        if self._hooks is None:
            self._hooks = LoadedPlugins(list_plugins(), self.home, self.note)
        return self._hooks

    def get_provider(self, name: str) -> Provider:
        """A provider by name; raises NotFound."""
        if name not in self._providers:
            self._providers[name] = self._make_provider(name)
        return self._providers[name]

    def _make_provider(self, name: str) -> Provider:
        if name == "local":
            return LocalProvider(self.home)
        options = self.settings.get_table(f"providers.{name}")
        kind = str(options.get("kind") or name)
        if kind in PROVIDER_CLASSES:
            import importlib

            module, _, cls = PROVIDER_CLASSES[kind].partition(":")
            make = getattr(importlib.import_module(module), cls)
            made: Provider = make(
                name,
                self.home,
                self._select_provider_settings(name, options, make.project_options),
                self.note,
            )
            return made
        for provider in self.hooks.list_providers(lambda: self.settings):
            if provider.name == name:
                return provider
        raise NotFound(f"the provider {name!r} is not available", "known: " + ", ".join(self.list_provider_names()))

    def _select_provider_settings(self, name: str, options: dict[str, Any], shared: tuple[str, ...]) -> dict[str, Any]:
        """A provider's settings. What a project may not choose for who works on it counts from his own settings only."""
        own = self.load_project_settings(None).get_table(f"providers.{name}")
        for key in sorted(options):
            if key not in ("kind", *shared) and key.partition(".")[0] not in shared and key not in own:
                self.note(f"providers.{name}.{key} in the project's settings does not count; put it in your own")
        chosen = {k: v for k, v in options.items() if k in ("kind", *shared) or k.partition(".")[0] in shared}
        return {**own, **chosen}

    def list_provider_names(self) -> list[str]:
        """Every provider there is: built in, in the settings, of a plugin."""
        own = [key.partition(".")[0] for key in self.settings.get_table("providers") if key.endswith(".kind")]
        plugins = [provider.name for provider in self.hooks.list_providers(lambda: self.settings)]
        known = [name for name in PROVIDER_CLASSES if name != "template"]  # which is a kind for others
        return list(dict.fromkeys(["local", *known, *own, *plugins]))

    def list_host_keys(self) -> list[tuple[str, str]]:
        """(provider, host) of every host in use: this machine, those we remember, those of plugins."""
        found = [("local", "local")]
        found += [(p, host) for p in registry.list_providers(self.home) for host in registry.list_hosts(self.home, p)]
        for provider in self.hooks.list_providers(lambda: self.settings):
            found += [(provider.name, host) for host in provider.list()]
        return list(dict.fromkeys(found))

    def get_host_key(self, name: str) -> tuple[str, str]:
        """(provider, host) of a host named without its provider; MngrError when it could be several."""
        if name == "local":
            return "local", "local"
        known = [place for place in self.list_host_keys() if place[1] == name]
        if not known:
            pools = self.settings.get_table("providers").items()
            known = [(key[:-6], name) for key, value in pools if key.endswith(".hosts") and name in value]
        if not known and name in self.list_provider_names():
            raise UsageError(f"{name!r} is a provider, not a host", f"for a host of its own: .{name}")
        if len(known) > 1:
            listed = ", ".join(f"@{host}.{provider}" for provider, host in known)
            raise MngrError(f"the host {name!r} could be any of {listed}", "say which")
        return known[0] if known else ("ssh", name)

    @property
    def local_host(self) -> Host:
        """This machine, whatever plugins do."""
        key = ("local", "local")
        if key not in self._hosts:
            self._hosts[key] = LocalProvider(self.home).open("local")
        return self._hosts[key]

    def get_host(self, provider: str, name: str) -> Host:
        """A host by provider and name; raises NotFound, Unreachable."""
        key = (provider, name)
        if key not in self._hosts:
            self._hosts[key] = self.get_provider(provider).open(name)
        return self._hosts[key]

    def get_kind(self, name: str, otherwise: str = "") -> AgentKind:
        """An agent kind by name; raises MngrError that lists those there are, and says what else may be meant."""
        if name not in self._kinds:
            if name in KIND_MODULES:
                self._kinds[name] = self._make_kind(name, name)
            elif parent := self.settings.get(f"agents.{name}.parent"):
                self._kinds[name] = self._make_kind(name, self._check_parent(name, parent))
            else:
                for kind in self.hooks.list_kinds():
                    self._kinds.setdefault(kind.name, kind)
        if name not in self._kinds:
            known = self.list_kind_names()
            raise MngrError(
                f"there is no agent kind {name!r}",
                suggest_closest(name, known) or f"known: {', '.join(known)}{otherwise}",
            )
        return self._kinds[name]

    def get_agent_kind(self, record: AgentRecord) -> AgentKind:
        """The kind of an agent; one of the user's own also where its settings are not at hand."""
        parent = record.options.get("parent")
        if (
            parent in KIND_MODULES
            and record.kind not in self._kinds
            and not self.settings.get(f"agents.{record.kind}.parent")
        ):
            self._kinds[record.kind] = self._make_kind(record.kind, str(parent))
        return self.get_kind(record.kind)

    def _make_kind(self, name: str, parent: str) -> AgentKind:
        import importlib

        module = importlib.import_module(KIND_MODULES[parent])
        if not hasattr(module, "make_kind"):
            kind: AgentKind = module.KIND
            return kind
        made: AgentKind = module.make_kind(name, lambda: self.settings.get_table(f"agents.{name}"))
        return made

    def _check_parent(self, name: str, parent: object) -> str:
        """The kind that `[agents.NAME] parent` names, if others can be made of it."""
        if parent not in CODING_KINDS:
            raise MngrError(
                f"agents.{name}.parent is {parent!r}, which is no kind that others can be made of",
                suggest_closest(str(parent), CODING_KINDS) or "there are: " + ", ".join(CODING_KINDS),
            )
        return str(parent)

    def list_kind_names(self) -> list[str]:
        """Every kind there is."""
        own = [key[: -len(".parent")] for key in self.settings.get_table("agents") if key.endswith(".parent")]
        return sorted({*KIND_MODULES, *own, *(kind.name for kind in self.hooks.list_kinds())})

    def is_ssh_config_stale(self) -> bool:
        """Return True when the user has entries for ssh, and an agent came or went since they were written."""
        try:
            written, changed = os.stat(self.home.ssh_config), os.stat(self.home.names)
        except OSError:
            return False
        return written.st_mtime_ns != changed.st_mtime_ns

    def close(self) -> None:
        """Give back what hosts hold open."""
        for host in self._hosts.values():
            try:
                host.close()
            except Unreachable:
                pass
