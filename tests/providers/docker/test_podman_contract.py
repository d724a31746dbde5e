"""Containers of Podman, by the checks that every provider must pass."""

from __future__ import annotations

import pytest

from mngr.testkit.contract import HostContract, NewHostContract, ProviderUnderTest, StopHostContract
from tests.providers.docker.test_contract import settings
from tests.support.hosts.engines import Podman


@pytest.mark.sampled(8)
class TestPodman(HostContract, NewHostContract, StopHostContract):
    """Every check has a container of its own; a provider of the user's is the docker one with another program."""

    @pytest.fixture
    def place(self, podman_engine: Podman) -> ProviderUnderTest:
        env = {"MNGR__PROVIDERS__PODMAN__KIND": "docker", "MNGR__PROVIDERS__PODMAN__PROGRAM": "podman"}
        return ProviderUnderTest("podman", env={**settings("podman"), **env, **podman_engine.env})
