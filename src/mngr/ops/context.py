"""What every operation works with: the home, the settings, the hosts, the kinds, the plugins."""

from __future__ import annotations

import os

from mngr import config, paths
from mngr.errors import MngrError, NotFound, Unreachable, closest
from mngr.plugins import KINDS, Hooks, find_plugins
from mngr.providers.local import LocalProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.protocol import AgentKind
    from mngr.config import Settings
    from mngr.host import Host, Provider


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
        self._assignments = settings or []
        self._settings: dict[str | None, Settings] = {}
        self._hooks: Hooks | None = None
        self._hosts: dict[tuple[str, str], Host] = {}
        self._providers: dict[str, Provider] | None = None
        self._kinds: dict[str, AgentKind] = {}

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

    @property
    def hooks(self) -> Hooks:
        """The installed plugins."""
        if self._hooks is None:
            self._hooks = Hooks(find_plugins(), self.home, self.note)
        return self._hooks

    @property
    def providers(self) -> dict[str, Provider]:
        """Every provider by name."""
        if self._providers is None:
            known: dict[str, Provider] = {"local": LocalProvider(self.home)}
            for provider in self.hooks.providers(lambda: self.settings):
                known.setdefault(provider.name, provider)
            self._providers = known
        return self._providers

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
            if provider not in self.providers:
                raise NotFound(f"there is no provider {provider!r}", "known: " + ", ".join(self.providers))
            self._hosts[key] = self.providers[provider].open(name)
        return self._hosts[key]

    def kind(self, name: str) -> AgentKind:
        """An agent kind by name; raises MngrError that lists those there are."""
        if name not in self._kinds:
            if name in KINDS:
                import importlib

                self._kinds[name] = importlib.import_module(f"mngr.agents.{name}").KIND
            else:
                for kind in self.hooks.kinds():
                    self._kinds.setdefault(kind.name, kind)
        if name not in self._kinds:
            known = self.kind_names()
            raise MngrError(
                f"there is no agent kind {name!r}",
                closest(name, known)
                or f"known: {', '.join(known)}; a command goes after --: mngr create NAME -- {name}",
            )
        return self._kinds[name]

    def kind_names(self) -> list[str]:
        """Every kind there is."""
        return sorted({*KINDS, *(kind.name for kind in self.hooks.kinds())})

    def close(self) -> None:
        """Give back what hosts hold open."""
        for host in self._hosts.values():
            try:
                host.close()
            except Unreachable:
                pass
