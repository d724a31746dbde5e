"""Tests of command-line programs as a person would try them, with evidence that a person can watch.

It stands alone: nothing else of mngr is imported here, and any project can use it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.e2e.expectation import expect as expect
    from mngr.e2e.result import CommandTimeout as CommandTimeout
    from mngr.e2e.result import E2eResult as E2eResult
    from mngr.e2e.session import E2eSession as E2eSession
    from mngr.e2e.tty import Tty as Tty

_EXPORTS = {
    "CommandTimeout": "mngr.e2e.result",
    "E2eSession": "mngr.e2e.session",
    "E2eResult": "mngr.e2e.result",
    "Tty": "mngr.e2e.tty",
    "expect": "mngr.e2e.expectation",
}


def __getattr__(name: str) -> object:
    """What `from mngr.e2e import …` finds, imported only when asked for."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'mngr.e2e' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_EXPORTS[name]), name)
