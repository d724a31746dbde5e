"""The hooks of this plugin. Each one imports its module only when mngr calls it."""

from __future__ import annotations

import os

from mngr.plugins.hooks import hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from mngr.base.config import Settings
    from mngr.base.model import AgentRecord
    from mngr.base.paths import Home
    from mngr.host.protocol import Provider
    from mngr.kinds.protocol import AgentKind


@hookimpl
def mngr_providers(home: Home, settings: Settings) -> list[Provider]:
    """Add the provider for `mngr create foo@box.scratch -- CMD`."""
    from mngr_example.scratch import ScratchProvider

    root = settings.get("providers.scratch.root") or os.path.join(home.root, "scratch")
    return [ScratchProvider(home, str(root))]


@hookimpl
def mngr_kinds() -> list[AgentKind]:
    """Add the agent kind for `mngr create foo echo -- TEXT`."""
    from mngr_example.echo import EchoKind

    return [EchoKind()]


@hookimpl
def mngr_commands() -> list[ModuleType]:
    """Add the command `mngr hello`."""
    from mngr_example import hello

    return [hello]


@hookimpl
def mngr_step(home: Home, operation: str, step: str, agent: AgentRecord) -> None:
    """Log every step of creating or destroying an agent, before it runs."""
    _log(home, f"{operation} {agent.name}: {step}")


@hookimpl
def mngr_created(home: Home, agent: AgentRecord) -> None:
    """Log each agent after mngr has created and started it."""
    _log(home, f"created {agent.name} on {agent.host}.{agent.provider}")


@hookimpl
def mngr_destroyed(home: Home, agent: AgentRecord) -> None:
    """Log each agent after mngr has moved it to the trash."""
    _log(home, f"destroyed {agent.name}")


def _log(home: Home, line: str) -> None:
    home.create()
    with open(os.path.join(home.root, "example.log"), "a", encoding="utf-8") as file:
        file.write(line + "\n")
