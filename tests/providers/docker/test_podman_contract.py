"""Containers of Podman pass the checks for every provider."""

from __future__ import annotations

import pytest

from mngr.testkit.contract import HostContract, NewHostContract, ProviderUnderTest, StopHostContract
from tests.providers.docker.test_contract import settings
from tests.support.hosts.engines import Podman


@pytest.mark.sampled(8)
class TestPodman(HostContract, NewHostContract, StopHostContract):
    """Every check has its own container. The provider is the docker provider with another program."""

    @pytest.fixture
    def place(self, podman_engine: Podman) -> ProviderUnderTest:
        env = {"MNGR__PROVIDERS__PODMAN__KIND": "docker", "MNGR__PROVIDERS__PODMAN__PROGRAM": "podman"}
        return ProviderUnderTest("podman", env={**settings("podman"), **env, **podman_engine.env})
