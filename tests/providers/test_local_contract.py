"""This machine, by the checks that every provider must pass."""

from __future__ import annotations

import pytest

from mngr.testkit.contract import HostContract, ProviderUnderTest


class TestLocal(HostContract):
    @pytest.fixture
    def place(self) -> ProviderUnderTest:
        return ProviderUnderTest("local", "local", is_local=True)
