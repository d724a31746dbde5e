"""mngr runs many coding agents at a time, on any machine."""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.create.spec import AgentSpec as AgentSpec
    from mngr.api import Fleet as Fleet
    from mngr.base.errors import MngrError as MngrError
    from mngr.base.model import AgentView as AgentView

_EXPORTS = {
    "AgentSpec": "mngr.agents.create.spec",
    "AgentView": "mngr.base.model",
    "Fleet": "mngr.api",
    "MngrError": "mngr.base.errors",
}


def __getattr__(name: str) -> object:
    """Import and return a public name of the package on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'mngr' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_EXPORTS[name]), name)
