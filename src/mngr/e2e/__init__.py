"""Test command-line programs in a real shell or terminal, with a transcript and recordings as evidence.

This package imports nothing else of mngr, so any project can use it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.e2e.expectations.expectation import expect as expect
    from mngr.e2e.result import CommandTimeout as CommandTimeout
    from mngr.e2e.result import E2eResult as E2eResult
    from mngr.e2e.session import E2eSession as E2eSession
    from mngr.e2e.tty import Tty as Tty

_EXPORTS = {
    "CommandTimeout": "mngr.e2e.result",
    "E2eSession": "mngr.e2e.session",
    "E2eResult": "mngr.e2e.result",
    "Tty": "mngr.e2e.tty",
    "expect": "mngr.e2e.expectations.expectation",
}


def __getattr__(name: str) -> object:
    """Import and return a public name of the package on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'mngr.e2e' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_EXPORTS[name]), name)
