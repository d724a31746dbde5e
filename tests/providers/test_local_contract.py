"""This machine, by the checks that every provider must pass."""

from __future__ import annotations

import pytest

from mngr.testkit.contract import HostContract, Place


class TestLocal(HostContract):
    @pytest.fixture
    def place(self) -> Place:
        return Place("local", "local", is_here=True)
