"""mngr runs coding agents, many at a time, anywhere."""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.errors import MngrError as MngrError
    from mngr.fleet import Fleet as Fleet
    from mngr.model import AgentView as AgentView

_EXPORTS = {"Fleet": "mngr.fleet", "AgentView": "mngr.model", "MngrError": "mngr.errors"}


def __getattr__(name: str) -> object:
    """What `from mngr import …` finds, imported only when asked for."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'mngr' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_EXPORTS[name]), name)
