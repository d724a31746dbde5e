"""The hooks that a plugin can implement. A plugin is a package with an entry point in the group `mngr`.

An implementation takes the arguments it needs, by name, and may omit the others.
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
hookimpl = pluggy.HookimplMarker("mngr")  # the decorator for a plugin's functions


@hookspec
def mngr_providers(home: Home, settings: Settings) -> list[Provider]:
    """Return providers, each usable as NAME@HOST.PROVIDER. Their settings are below `providers.NAME`."""
    return []


@hookspec
def mngr_kinds() -> list[AgentKind]:
    """Return agent kinds, each usable as `mngr create NAME KIND`."""
    return []


@hookspec
def mngr_commands() -> list[ModuleType]:
    """Return command modules with `COMMAND` (a `mngr.cli.framework.command_spec.CommandSpec`) and `run(cli, args)`."""
    return []


@hookspec
def mngr_step(home: Home, operation: str, step: str, agent: AgentRecord) -> None:
    """Called before each step of creating or destroying an agent. An exception fails and undoes the operation."""


@hookspec
def mngr_created(home: Home, agent: AgentRecord) -> None:
    """Called after an agent was created and runs."""


@hookspec
def mngr_started(home: Home, agent: AgentRecord) -> None:
    """Called after a stopped agent was started again."""


@hookspec
def mngr_stopped(home: Home, agent: AgentRecord) -> None:
    """Called after an agent was stopped."""


@hookspec
def mngr_destroyed(home: Home, agent: AgentRecord) -> None:
    """Called after an agent was destroyed and is in the trash."""


@hookspec
def mngr_listed(home: Home, agents: list[AgentView]) -> None:
    """Called with the agents that `list` is about to show."""
