"""Containers of a docker daemon pass the checks for every provider."""

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
    """Return the settings for hosts of a tiny image that mounts this machine's programs."""
    mounts = [word for word in TOOLS if word != "-v"]
    prefix = f"MNGR__PROVIDERS__{provider.upper()}__"
    return {prefix + "IMAGE": IMAGE, prefix + "VOLUMES": str(mounts).replace("'", '"')}


@pytest.mark.sampled(8)
class TestDocker(HostContract, NewHostContract, StopHostContract):
    """Every check has its own container."""

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
