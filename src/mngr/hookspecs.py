"""What a plugin can add. A plugin is a package with an entry point in the group `mngr`."""

from __future__ import annotations

import pluggy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from mngr.agents.protocol import AgentKind
    from mngr.host import Provider
    from mngr.model import AgentRecord, AgentView
    from mngr.paths import Home

hookspec = pluggy.HookspecMarker("mngr")


@hookspec
def mngr_providers(home: Home) -> list[Provider]:
    """Providers by name, each usable as NAME@HOST.PROVIDER."""
    return []


@hookspec
def mngr_kinds() -> list[AgentKind]:
    """Agent kinds, each usable as `mngr create NAME KIND`."""
    return []


@hookspec
def mngr_commands() -> list[ModuleType]:
    """Command modules: each has `COMMAND` (a `mngr.cli.spec.Command`) and `run(cli, args)`."""
    return []


@hookspec
def mngr_step(operation: str, step: str, agent: AgentRecord) -> None:
    """Called before each step of an operation on an agent; an exception fails the step, which is then undone."""


@hookspec
def mngr_created(agent: AgentRecord) -> None:
    """An agent was created and runs."""


@hookspec
def mngr_started(agent: AgentRecord) -> None:
    """A stopped agent runs again."""


@hookspec
def mngr_stopped(agent: AgentRecord) -> None:
    """An agent was stopped."""


@hookspec
def mngr_destroyed(agent: AgentRecord) -> None:
    """An agent was destroyed and lies in the graveyard."""


@hookspec
def mngr_listed(agents: list[AgentView]) -> None:
    """The agents as `list` is about to show them."""
