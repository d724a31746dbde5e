"""What every operation works with: the home, the settings, the hosts, the kinds, the plugins."""

from __future__ import annotations

import os

from mngr.base import config, paths
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError, closest
from mngr.host import registry
from mngr.plugins.loader import CODERS, KINDS, PROVIDERS, Hooks, find_plugins
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
        self.home = paths.Home(home or paths.default_home())
        self.cwd = os.path.abspath(cwd) if cwd else paths.current_dir()
        self.note = note or (lambda text: None)
        self.ask: Callable[[str], bool] | None = (
            None  # the person who could answer a question, if there is one
        )
        self._assignments = settings or []
        self._settings: dict[str | None, Settings] = {}
        self._hooks: Hooks | None = None
        self._hosts: dict[tuple[str, str], Host] = {}
        self._providers: dict[str, Provider] = {}
        self._kinds: dict[str, AgentKind] = {}
        self.settled: dict[Host, str] = {}  # hosts that have our programs, and where

    def path(self, text: str) -> str:
        """A path as the user means it: from the directory he is in."""
        return os.path.join(self.cwd, text.removeprefix("./"))

    @property
    def settings(self) -> Settings:
        """All layers of settings that apply here."""
        return self.settings_at(paths.find_project_root(self.cwd))

    def settings_at(self, root: str | None) -> Settings:
        """All layers of settings that apply to a project."""
        if root not in self._settings:
            self._settings[root] = config.load(self.home.settings, root, self._assignments, dict(os.environ))
        return self._settings[root]

    def reload_settings(self) -> None:
        """Read the settings again when somebody next asks: a file of them has changed."""
        self._settings.clear()
        self._kinds.clear()

    def settings_of(self, host: Host, root: str) -> Settings:
        """All layers that apply to a project, be it on another host."""
        if host.is_here:
            return self.settings_at(root)
        try:
            text = host.read(os.path.join(root, paths.SETTINGS))
        except MngrError:
            return self.settings_at(None)
        return config.load(
            self.home.settings,
            None,
            self._assignments,
            dict(os.environ),
            project=(f"{host.name}:{root}", text),
        )

    @property
    def hooks(self) -> Hooks:
        """The installed plugins."""
        if self._hooks is None:
            self._hooks = Hooks(find_plugins(), self.home, self.note)
        return self._hooks

    def provider(self, name: str) -> Provider:
        """A provider by name; raises NotFound."""
        if name not in self._providers:
            self._providers[name] = self._make_provider(name)
        return self._providers[name]

    def _make_provider(self, name: str) -> Provider:
        if name == "local":
            return LocalProvider(self.home)
        options = self.settings.table(f"providers.{name}")
        kind = str(options.get("kind") or name)
        if kind in PROVIDERS:
            import importlib

            module, _, cls = PROVIDERS[kind].partition(":")
            make = getattr(importlib.import_module(module), cls)
            made: Provider = make(name, self.home, self._own(name, options, make.from_project), self.note)
            return made
        for provider in self.hooks.providers(lambda: self.settings):
            if provider.name == name:
                return provider
        raise NotFound(
            f"the provider {name!r} is not available", "known: " + ", ".join(self.provider_names())
        )

    def _own(self, name: str, options: dict[str, Any], shared: tuple[str, ...]) -> dict[str, Any]:
        """A provider's settings. What a project may not choose for who works on it counts from his own settings only."""
        own = self.settings_at(None).table(f"providers.{name}")
        for key in sorted(options):
            if key not in ("kind", *shared) and key.partition(".")[0] not in shared and key not in own:
                self.note(
                    f"providers.{name}.{key} in the project's settings does not count; put it in your own"
                )
        chosen = {k: v for k, v in options.items() if k in ("kind", *shared) or k.partition(".")[0] in shared}
        return {**own, **chosen}

    def provider_names(self) -> list[str]:
        """Every provider there is: built in, in the settings, of a plugin."""
        own = [key.partition(".")[0] for key in self.settings.table("providers") if key.endswith(".kind")]
        plugins = [provider.name for provider in self.hooks.providers(lambda: self.settings)]
        known = [name for name in PROVIDERS if name != "template"]  # which is a kind for others
        return list(dict.fromkeys(["local", *known, *own, *plugins]))

    def places(self) -> list[tuple[str, str]]:
        """(provider, host) of every host in use: this machine, those we remember, those of plugins."""
        found = [("local", "local")]
        found += [(p, host) for p in registry.providers(self.home) for host in registry.names(self.home, p)]
        for provider in self.hooks.providers(lambda: self.settings):
            found += [(provider.name, host) for host in provider.list()]
        return list(dict.fromkeys(found))

    def find_host(self, name: str) -> tuple[str, str]:
        """(provider, host) of a host named without its provider; MngrError when it could be several."""
        if name == "local":
            return "local", "local"
        known = [place for place in self.places() if place[1] == name]
        if not known:
            pools = self.settings.table("providers").items()
            known = [(key[:-6], name) for key, value in pools if key.endswith(".hosts") and name in value]
        if not known and name in self.provider_names():
            raise UsageError(f"{name!r} is a provider, not a host", f"for a host of its own: .{name}")
        if len(known) > 1:
            listed = ", ".join(f"@{host}.{provider}" for provider, host in known)
            raise MngrError(f"the host {name!r} could be any of {listed}", "say which")
        return known[0] if known else ("ssh", name)

    @property
    def local(self) -> Host:
        """This machine, whatever plugins do."""
        key = ("local", "local")
        if key not in self._hosts:
            self._hosts[key] = LocalProvider(self.home).open("local")
        return self._hosts[key]

    def host(self, provider: str, name: str) -> Host:
        """A host by provider and name; raises NotFound, Unreachable."""
        key = (provider, name)
        if key not in self._hosts:
            self._hosts[key] = self.provider(provider).open(name)
        return self._hosts[key]

    def kind(self, name: str, otherwise: str = "") -> AgentKind:
        """An agent kind by name; raises MngrError that lists those there are, and says what else may be meant."""
        if name not in self._kinds:
            if name in KINDS:
                self._kinds[name] = self._make_kind(name, name)
            elif parent := self.settings.get(f"agents.{name}.parent"):
                self._kinds[name] = self._make_kind(name, self._check_parent(name, parent))
            else:
                for kind in self.hooks.kinds():
                    self._kinds.setdefault(kind.name, kind)
        if name not in self._kinds:
            known = self.kind_names()
            raise MngrError(
                f"there is no agent kind {name!r}",
                closest(name, known) or f"known: {', '.join(known)}{otherwise}",
            )
        return self._kinds[name]

    def kind_of(self, record: AgentRecord) -> AgentKind:
        """The kind of an agent; one of the user's own also where its settings are not at hand."""
        parent = record.options.get("parent")
        if (
            parent in KINDS
            and record.kind not in self._kinds
            and not self.settings.get(f"agents.{record.kind}.parent")
        ):
            self._kinds[record.kind] = self._make_kind(record.kind, str(parent))
        return self.kind(record.kind)

    def _make_kind(self, name: str, parent: str) -> AgentKind:
        import importlib

        module = importlib.import_module(KINDS[parent])
        if not hasattr(module, "make"):
            kind: AgentKind = module.KIND
            return kind
        made: AgentKind = module.make(name, lambda: self.settings.table(f"agents.{name}"))
        return made

    def _check_parent(self, name: str, parent: object) -> str:
        """The kind that `[agents.NAME] parent` names, if others can be made of it."""
        if parent not in CODERS:
            raise MngrError(
                f"agents.{name}.parent is {parent!r}, which is no kind that others can be made of",
                closest(str(parent), CODERS) or "there are: " + ", ".join(CODERS),
            )
        return str(parent)

    def kind_names(self) -> list[str]:
        """Every kind there is."""
        own = [key[: -len(".parent")] for key in self.settings.table("agents") if key.endswith(".parent")]
        return sorted({*KINDS, *own, *(kind.name for kind in self.hooks.kinds())})

    def are_ssh_entries_stale(self) -> bool:
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
