"""A host with only git, tmux and busybox passes the checks for every provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.testkit.contract import HostContract, ProviderUnderTest
from mngr.testkit.contract.mngr_program import clean_up
from tests.host.scripts.conftest import land
from tests.support.hosts.sshd import Farm

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(5)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    """One such host."""
    path = land(tmp_path_factory.mktemp("small"), "busybox", flock=False).bin
    with Farm(1, path) as farm:
        assert farm.ssh("h1", "flock").stderr.endswith("not found\n")
        yield farm


class TestBusybox(HostContract):
    @pytest.fixture
    def place(self, small: Farm, request: pytest.FixtureRequest) -> Iterator[ProviderUnderTest]:
        home = small.home("h1") / f"{id(request):x}"
        yield ProviderUnderTest(
            "ssh",
            "h1",
            env={
                "MNGR__PROVIDERS__SSH__CONFIG": str(small.config),
                "MNGR__PROVIDERS__SSH__HOME": str(home),
            },
        )
        clean_up(home)
