"""The example plugin's provider passes the checks for every provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.testkit.contract import HostContract, NewHostContract, ProviderUnderTest

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(5)]


class TestScratch(HostContract, NewHostContract):
    @pytest.fixture
    def place(self, example_plugin: Path) -> ProviderUnderTest:
        return ProviderUnderTest("scratch", "box", env={"PYTHONPATH": str(example_plugin)}, is_local=True)
