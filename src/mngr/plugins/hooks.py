"""What a plugin can add. A plugin is a package with an entry point in the group `mngr`.

An implementation takes the arguments it needs, by name, and may leave out the others.
"""

from __future__ import annotations

import pluggy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from mngr.base.config import Settings
    from mngr.base.model import AgentRecord, AgentView
    from mngr.base.paths import Home
    from mngr.host.protocol import Provider
    from mngr.kinds.protocol import AgentKind

hookspec = pluggy.HookspecMarker("mngr")
hookimpl = pluggy.HookimplMarker("mngr")  # what a plugin marks its functions with


@hookspec
def mngr_providers(home: Home, settings: Settings) -> list[Provider]:
    """Providers, each usable as NAME@HOST.PROVIDER; their settings are under `providers.NAME`."""
    return []


@hookspec
def mngr_kinds() -> list[AgentKind]:
    """Agent kinds, each usable as `mngr create NAME KIND`."""
    return []


@hookspec
def mngr_commands() -> list[ModuleType]:
    """Command modules: each has `COMMAND` (a `mngr.cli.framework.spec.CommandSpec`) and `run(cli, args)`."""
    return []


@hookspec
def mngr_step(home: Home, operation: str, step: str, agent: AgentRecord) -> None:
    """Called before each step of making or destroying an agent; an exception fails it, and what was made is undone."""


@hookspec
def mngr_created(home: Home, agent: AgentRecord) -> None:
    """An agent was created and runs."""


@hookspec
def mngr_started(home: Home, agent: AgentRecord) -> None:
    """A stopped agent runs again."""


@hookspec
def mngr_stopped(home: Home, agent: AgentRecord) -> None:
    """An agent was stopped."""


@hookspec
def mngr_destroyed(home: Home, agent: AgentRecord) -> None:
    """An agent was destroyed and lies in the graveyard."""


@hookspec
def mngr_listed(home: Home, agents: list[AgentView]) -> None:
    """The agents as `list` is about to show them."""
