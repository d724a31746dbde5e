"""Hosts on a Ray cluster, by the checks that every provider must pass."""

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
    """What mngr needs to reach it."""
    return {f"MNGR__PROVIDERS__RAY__{key.upper()}": value for key, value in cluster.settings.items()}


@pytest.mark.sampled(16)
class TestRay(HostContract, NewHostContract, StopHostContract):
    """Every check has an actor of its own."""

    @pytest.fixture
    def place(self, ray: Cluster) -> ProviderUnderTest:
        return ProviderUnderTest("ray", env=settings(ray))


@pytest.mark.sampled(16)
class TestRayLost(LossContract):
    """The process that is connected to the cluster is killed, and another finds no cluster."""

    @pytest.fixture
    def place(self, ray: Cluster) -> Iterator[ProviderUnderTest]:
        yield ProviderUnderTest("ray", env=settings(ray), cut_connections=ray.cut, restore_connections=ray.mend)
        ray.mend()
