"""Provides a session without the pytest plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.e2e import E2eSession


@pytest.fixture
def session(tmp_path: Path) -> Iterator[E2eSession]:
    new_session = E2eSession(tmp_path / "artifacts")
    yield new_session
    new_session.close()
