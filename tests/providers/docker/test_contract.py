"""Containers of a docker daemon, by the checks that every provider must pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mngr.testkit.contract import (
    HostContract,
    LossContract,
    NewHostContract,
    ProviderUnderTest,
    StopHostContract,
)
from tests.support.hosts.cable import Cable
from tests.support.hosts.engines import IMAGE, TOOLS, Docker


def settings(provider: str) -> dict[str, str]:
    """What makes hosts of the tiny image with this machine's programs."""
    places = [word for word in TOOLS if word != "-v"]
    prefix = f"MNGR__PROVIDERS__{provider.upper()}__"
    return {prefix + "IMAGE": IMAGE, prefix + "VOLUMES": str(places).replace("'", '"')}


@pytest.mark.sampled(8)
class TestDocker(HostContract, NewHostContract, StopHostContract):
    """Every check has a container of its own."""

    @pytest.fixture
    def place(self, docker_engine: Docker) -> ProviderUnderTest:
        return ProviderUnderTest("docker", env={**settings("docker"), **docker_engine.env})


class TestDockerLost(LossContract):
    """The daemon is reached through a cable that can be cut."""

    @pytest.fixture
    def place(self, docker_engine: Docker, tmp_path: Path) -> Iterator[ProviderUnderTest]:
        cable = Cable(tmp_path / "cable.sock", docker_engine.dir / "docker.sock")
        env: Mapping[str, str] = {**settings("docker"), "DOCKER_HOST": f"unix://{cable.path}"}
        yield ProviderUnderTest("docker", env=env, cut_connections=cable.cut, restore_connections=cable.mend)
        cable.cut()
