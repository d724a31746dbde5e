"""Hosts reached by ssh pass the checks for every provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.testkit.contract import HostContract, LossContract, ProviderUnderTest
from mngr.testkit.contract.mngr_program import clean_up
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts


@pytest.mark.sampled(8)
class TestSsh(HostContract):
    """All checks share one connection, as a user's commands do. Every check has its own home on the host."""

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
