"""Hosts reached by ssh, by the checks that every provider must pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.testkit.contract import HostContract, LossContract, ProviderUnderTest
from mngr.testkit.contract.program import clean_up
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts


@pytest.mark.sampled(8)
class TestSsh(HostContract):
    """On one connection, as a user would; every check has a home of its own there."""

    @pytest.fixture
    def place(self, three_hosts: Farm, request: pytest.FixtureRequest) -> Iterator[ProviderUnderTest]:
        home = three_hosts.home("h1") / f"{id(request):x}"
        yield ProviderUnderTest(
            "ssh",
            "h1",
            env={
                "MNGR__PROVIDERS__SSH__CONFIG": str(three_hosts.config),
                "MNGR__PROVIDERS__SSH__HOME": str(home),
            },
        )
        clean_up(home)


@pytest.mark.sampled(8)
class TestSshLost(LossContract):
    @pytest.fixture
    def place(self, farm: Farm) -> ProviderUnderTest:
        return ProviderUnderTest(
            "ssh",
            "h1",
            env={"MNGR__PROVIDERS__SSH__CONFIG": str(farm.config)},
            cut_connections=lambda: farm.cut("h1"),
            restore_connections=lambda: farm.mend("h1"),
        )
