"""This machine passes the checks for every provider."""

from __future__ import annotations

import pytest

from mngr.testkit.contract import HostContract, ProviderUnderTest


class TestLocal(HostContract):
    @pytest.fixture
    def place(self) -> ProviderUnderTest:
        return ProviderUnderTest("local", "local", is_local=True)
