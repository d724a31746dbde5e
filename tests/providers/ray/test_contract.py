"""Hosts on a Ray cluster pass the checks for every provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mngr.testkit.contract import (
    HostContract,
    LossContract,
    NewHostContract,
    ProviderUnderTest,
    StopHostContract,
)
from tests.support.hosts.ray import Cluster


def settings(cluster: Cluster) -> dict[str, str]:
    """Return the settings with which mngr reaches the cluster."""
    return {f"MNGR__PROVIDERS__RAY__{key.upper()}": value for key, value in cluster.settings.items()}


@pytest.mark.sampled(16)
class TestRay(HostContract, NewHostContract, StopHostContract):
    """Every check has its own actor."""

    @pytest.fixture
    def place(self, ray: Cluster) -> ProviderUnderTest:
        return ProviderUnderTest("ray", env=settings(ray))


@pytest.mark.sampled(16)
class TestRayLost(LossContract):
    """The process that is connected to the cluster is killed, and a new one cannot reach the cluster."""

    @pytest.fixture
    def place(self, ray: Cluster) -> Iterator[ProviderUnderTest]:
        yield ProviderUnderTest("ray", env=settings(ray), cut_connections=ray.cut, restore_connections=ray.mend)
        ray.mend()
