"""Pauses Python's garbage collection while many objects are created that all stay alive."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause() -> Iterator[None]:
    """Collect no garbage in the block. Each collection would look at all the new objects again, in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
