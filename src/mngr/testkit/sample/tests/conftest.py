"""Put the program of this copy on the PATH of every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.e2e import E2eSession

BIN = Path(__file__).parents[1] / "bin"


@pytest.fixture(autouse=True)
def pantry_on_path(e2e: E2eSession) -> None:
    e2e.env["PATH"] = f"{BIN}:{e2e.env['PATH']}"
