"""The program while it runs beside the test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import BIN, Mngr


@contextmanager
def beside(mngr: Mngr, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start it, and end it with the block if it has not ended by then."""
    argv = [str(BIN / "mngr"), *words]
    process = subprocess.Popen(
        argv, cwd=mngr.repo, env=mngr.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=10)
