"""The context of every operation: the home, the settings, the hosts, the kinds and the plugins."""

from __future__ import annotations

import os

from mngr.base import config, paths, shell
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError, suggest_closest
from mngr.host import host_store
from mngr.plugins.loader import CODING_KINDS, KIND_MODULES, PROVIDER_CLASSES, LoadedPlugins, list_plugins
from mngr.providers.local import LocalProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.base.config import Settings
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host, Provider
    from mngr.kinds.protocol import AgentKind


class Context:
    """One user's view of one home. It loads everything when it is first needed."""

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
        self.ask: Callable[[str], bool] | None = None  # asks the user a yes-or-no question, if there is a user
        self.ask_trust: Callable[[str], bool] | None = None  # the same, for the question whether to trust a project
        self._assignments = settings or []
        self._settings: dict[str | None, Settings] = {}
        self._hooks: LoadedPlugins | None = None
        self._hosts: dict[tuple[str, str], Host] = {}
        self._providers: dict[str, Provider] = {}
        self._kinds: dict[str, AgentKind] = {}
        self.installed_libs: dict[Host, str] = {}  # where mngr's programs are installed, by host

    def resolve_path(self, text: str) -> str:
        """Return a path relative to the user's current directory as an absolute path."""
        return os.path.join(self.cwd, text.removeprefix("./"))

    @property
    def settings(self) -> Settings:
        """Return all layers of settings that apply to the current directory."""
        return self.load_project_settings(paths.find_project_root(self.cwd))

    def load_project_settings(self, root: str | None) -> Settings:
        """Return all layers of settings that apply to a project, or without a root only those of the user."""
        if root not in self._settings:
            settings = config.load_settings(self.home.settings, root, self._assignments, dict(os.environ))
            if root is not None:
                settings.check_trust = lambda: self.check_project_trust(root, settings)
            self._settings[root] = settings
        return self._settings[root]

    def check_project_trust(self, root: str, settings: Settings) -> None:
        """Return if the user trusts the project's settings, or agrees to trust them now. Otherwise raise MngrError."""
        from mngr.base.trust import project_trust

        repository = project_trust.find_repository(root)
        values = settings.list_trusted_values()
        changes = project_trust.list_changes(project_trust.load_trusted(self.home.trust, repository), values)
        if not changes:
            return
        listed = project_trust.describe_changes(changes)
        if self.is_agent_work_dir(root):
            raise MngrError(
                f"{root} is an agent's work dir, and its settings differ from those that you trust:\n{listed}",
                "if you trust them, pull the agent's work, then run in your project: mngr trust",
            )
        if self.ask_trust is None or not self.ask_trust(project_trust.format_question(root, changes)):
            raise MngrError(
                f"you have not trusted the settings of {root}:\n{listed}", f"if you trust them: mngr trust {root}"
            )
        self.home.create()
        project_trust.save_trust(self.home.trust, repository, values)

    def require_project_trust(self, root: str, action: str) -> None:
        """Return if the user trusts a project, or agrees now, so that mngr may run its code on this machine.

        Otherwise raise MngrError. A project without any settings needs this trust, too. `action` says what runs the code.
        """
        from mngr.base.trust import project_trust

        settings = self.load_project_settings(root)
        self.check_project_trust(root, settings)
        repository = project_trust.find_repository(root)
        if project_trust.is_trusted_repository(self.home.trust, repository):
            return
        if self.ask_trust is None or not self.ask_trust(project_trust.format_question(root, [])):
            raise MngrError(
                f"{action} runs code of {root} on this machine, and you have not trusted this project",
                f"read its code; if you trust it: mngr trust {shell.quote(root)}",
            )
        self.home.create()
        project_trust.save_trust(self.home.trust, repository, settings.list_trusted_values())

    def is_agent_work_dir(self, root: str) -> bool:
        """True for a directory below the work dirs of this home's agents."""
        work_dirs = os.path.realpath(self.home.work_dirs)
        return os.path.realpath(root).startswith(work_dirs + os.sep)

    def extend_trust(self, root: str, values: dict[str, object]) -> None:
        """Trust some settings of a project in addition, because the user has just set them."""
        from mngr.base.trust import project_trust

        if self.is_agent_work_dir(root):
            return
        repository = project_trust.find_repository(root)
        self.home.create()
        trusted = project_trust.load_trusted(self.home.trust, repository)
        project_trust.save_trust(self.home.trust, repository, {**trusted, **values})

    def reload_settings(self) -> None:
        """Forget the loaded settings, because one of their files has changed."""
        self._settings.clear()
        self._kinds.clear()

    def load_host_settings(self, host: Host, root: str) -> Settings:
        """Return all layers of settings that apply to a project, which may be on another host."""
        if host.is_local:
            return self.load_project_settings(root)
        is_from_agent = root.startswith(host.home.work_dirs + "/")
        return self.load_foreign_settings(host, root, f"{host.name}:{root}", is_from_agent=is_from_agent)

    def load_foreign_settings(self, host: Host, root: str, place: str, *, is_from_agent: bool) -> Settings:
        """Return the settings for a copy of a project that comes from `place`: an address, a URL or an agent."""
        text = _read_foreign_settings(host, os.path.join(root, paths.PROJECT_SETTINGS))
        if text is None:
            return self.load_project_settings(None)
        settings = config.load_settings(
            self.home.settings, None, self._assignments, dict(os.environ), project=(place, text)
        )
        settings.check_trust = lambda: self._check_foreign_trust(place, settings, is_from_agent)
        return settings

    def _check_foreign_trust(self, place: str, settings: Settings, is_from_agent: bool) -> None:
        """Raise MngrError unless the user trusts the settings, for `place` or for the current project, or agrees now.

        The user cannot trust what an agent wrote into its copy.
        """
        from mngr.base.trust import project_trust

        root = paths.find_project_root(self.cwd)
        trusted = project_trust.load_trusted(self.home.trust, place)
        if root is not None:
            trusted |= project_trust.load_trusted(self.home.trust, project_trust.find_repository(root))
        values = settings.list_trusted_values()
        changes = project_trust.list_changes(trusted, values)
        if not changes or project_trust.is_hash_trusted(self.home.trust, place, values):
            return
        listed = project_trust.describe_changes(changes)
        if is_from_agent:
            raise MngrError(
                f"the settings in the work dir of {place} differ from those that you trust:\n{listed}",
                "if you trust them, pull the agent's work, then run in your project: mngr trust",
            )
        if self.ask_trust is None or not self.ask_trust(project_trust.format_question(place, changes)):
            raise MngrError(
                f"you have not trusted the settings in {place}:\n{listed}",
                f"if you trust them: mngr trust {shell.join([place])} --hash {project_trust.compute_digest(values)}",
            )
        project_trust.save_trust(self.home.trust, place, values)

    @property
    def hooks(self) -> LoadedPlugins:
        """Return the installed plugins."""
        if self._hooks is None:
            self._hooks = LoadedPlugins(list_plugins(), self.home, self.note)
        return self._hooks

    def get_provider(self, name: str) -> Provider:
        """Return a provider by name, or raise NotFound."""
        if name not in self._providers:
            self._providers[name] = self._make_provider(name)
        return self._providers[name]

    def _make_provider(self, name: str) -> Provider:
        """Create a provider: built-in, from the settings, or from a plugin. Raise NotFound for an unknown one."""
        if name == "local":
            return LocalProvider(self.home)
        options = self.settings.get_table(f"providers.{name}")
        kind = str(options.get("kind") or name)
        if kind in PROVIDER_CLASSES:
            import importlib

            module, _, class_name = PROVIDER_CLASSES[kind].partition(":")
            provider_class = getattr(importlib.import_module(module), class_name)
            built_in: Provider = provider_class(
                name,
                self.home,
                self._select_provider_settings(name, options, provider_class.project_options),
                self.note,
            )
            return built_in
        for provider in self.hooks.list_providers(lambda: self.settings):
            if provider.name == name:
                return provider
        raise NotFound(f"there is no provider {name!r}", "use one of: " + ", ".join(self.list_provider_names()))

    def _select_provider_settings(
        self, name: str, options: dict[str, object], project_options: tuple[str, ...]
    ) -> dict[str, object]:
        """Return a provider's settings. Of the project's, use only options that a project may choose for its users."""
        selected: dict[str, object] = {**self.load_project_settings(None).get_table(f"providers.{name}")}
        for key, value in sorted(options.items()):
            is_for_projects = key in ("kind", *project_options) or key.partition(".")[0] in project_options
            if is_for_projects:
                selected[key] = value
            elif key not in selected:
                self.note(
                    f"mngr ignores providers.{name}.{key} in the project's settings; set it for yourself: "
                    f"mngr config set --user providers.{name}.{key} VALUE"
                )
        return selected

    def list_provider_names(self) -> list[str]:
        """Return all providers: built-in ones, those in the settings, and those of plugins."""
        configured = [key.partition(".")[0] for key in self.settings.get_table("providers") if key.endswith(".kind")]
        from_plugins = [provider.name for provider in self.hooks.list_providers(lambda: self.settings)]
        built_in = [
            name for name in PROVIDER_CLASSES if name != "template"
        ]  # "template" is only a kind for configured providers.
        return list(dict.fromkeys(["local", *built_in, *configured, *from_plugins]))

    def list_host_keys(self) -> list[tuple[str, str]]:
        """Return (provider, host) of every host in use: this machine, remembered hosts, and hosts of plugins."""
        host_keys = [("local", "local")]
        host_keys += [
            (provider_name, host)
            for provider_name in host_store.list_providers(self.home)
            for host in host_store.list_hosts(self.home, provider_name)
        ]
        for provider in self.hooks.list_providers(lambda: self.settings):
            host_keys += [(provider.name, host) for host in provider.list()]
        return list(dict.fromkeys(host_keys))

    def get_host_key(self, name: str) -> tuple[str, str]:
        """Return (provider, host) for a host's name without its provider. Raise MngrError when it is ambiguous."""
        if name == "local":
            return "local", "local"
        matches = [host_key for host_key in self.list_host_keys() if host_key[1] == name]
        if not matches:
            provider_settings = self.settings.get_table("providers").items()
            matches = [(key[:-6], name) for key, value in provider_settings if key.endswith(".hosts") and name in value]
        if not matches and name in self.list_provider_names():
            raise UsageError(
                f"{name!r} is a provider, not a host", f"write NAME@.{name} for a new host of this provider"
            )
        if len(matches) > 1:
            candidates = ", ".join(f"@{host}.{provider}" for provider, host in matches)
            raise MngrError(
                f"several hosts are called {name!r}: {candidates}",
                f"add the provider, for example: {candidates.partition(',')[0]}",
            )
        return matches[0] if matches else ("ssh", name)

    @property
    def local_host(self) -> Host:
        """Return this machine as a host. Plugins cannot replace it."""
        key = ("local", "local")
        if key not in self._hosts:
            self._hosts[key] = LocalProvider(self.home).open("local")
        return self._hosts[key]

    def get_host(self, provider: str, name: str) -> Host:
        """Return a host by provider and name. Raise NotFound or Unreachable."""
        key = (provider, name)
        if key not in self._hosts:
            self._hosts[key] = self.get_provider(provider).open(name)
        return self._hosts[key]

    def get_kind(self, name: str, extra_hint: str = "") -> AgentKind:
        """Return an agent kind by name. Raise MngrError with the known kinds, followed by `extra_hint`."""
        if name not in self._kinds:
            if name in KIND_MODULES:
                self._kinds[name] = self._make_kind(name, name)
            elif parent := self.settings.get(f"agents.{name}.parent"):
                self._kinds[name] = self._make_kind(name, self._check_parent(name, parent))
            else:
                for kind in self.hooks.list_kinds():
                    self._kinds.setdefault(kind.name, kind)
        if name not in self._kinds:
            known_names = self.list_kind_names()
            raise MngrError(
                f"there is no agent kind {name!r}",
                suggest_closest(name, known_names) or f"use one of: {', '.join(known_names)}{extra_hint}",
            )
        return self._kinds[name]

    def get_agent_kind(self, record: AgentRecord) -> AgentKind:
        """Return the kind of an agent. A kind from the user's settings also works where those settings are missing."""
        parent = record.options.get("parent")
        if (
            parent in KIND_MODULES
            and record.kind not in self._kinds
            and not self.settings.get(f"agents.{record.kind}.parent")
        ):
            self._kinds[record.kind] = self._make_kind(record.kind, str(parent))
        return self.get_kind(record.kind)

    def _make_kind(self, name: str, parent: str) -> AgentKind:
        """Create a built-in kind, or a configured one from its parent's module."""
        import importlib

        module = importlib.import_module(KIND_MODULES[parent])
        if not hasattr(module, "make_kind"):
            kind: AgentKind = module.KIND
            return kind
        configured: AgentKind = module.make_kind(name, lambda: self.settings.get_table(f"agents.{name}"))
        return configured

    def _check_parent(self, name: str, parent: object) -> str:
        """Return the parent of a configured kind. Raise MngrError unless it is a built-in coding agent."""
        if parent not in CODING_KINDS:
            raise MngrError(
                f"agents.{name}.parent is {parent!r}, but it must be a built-in coding agent",
                suggest_closest(str(parent), CODING_KINDS) or "use one of: " + ", ".join(CODING_KINDS),
            )
        return str(parent)

    def list_kind_names(self) -> list[str]:
        """Return the names of all agent kinds."""
        configured = [key[: -len(".parent")] for key in self.settings.get_table("agents") if key.endswith(".parent")]
        return sorted({*KIND_MODULES, *configured, *(kind.name for kind in self.hooks.list_kinds())})

    def is_ssh_config_stale(self) -> bool:
        """True when the user has ssh entries and an agent was created or removed since they were written."""
        try:
            written, changed = os.stat(self.home.ssh_config), os.stat(self.home.names)
        except OSError:
            return False
        return written.st_mtime_ns != changed.st_mtime_ns

    def close(self) -> None:
        """Close the connections to all hosts."""
        for host in self._hosts.values():
            try:
                host.close()
            except Unreachable:
                pass


def _read_foreign_settings(host: Host, path: str) -> bytes | None:
    """Return the settings file of a project that comes from elsewhere, or None when it does not exist."""
    if host.is_local:
        return config.read_project_settings_text(path)
    try:
        return host.read(path)
    except NotFound:
        return None
