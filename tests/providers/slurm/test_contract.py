"""Jobs of a Slurm cluster with three nodes pass the checks for every provider."""

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
from tests.support.hosts.slurm import Line, Slurm


def settings(slurm: Slurm) -> dict[str, str]:
    """Return the environment with the directories of the hosts and of the user."""
    home = {"HOME": str(slurm.home), "MNGR__PROVIDERS__SLURM__HOME": str(slurm.shared / "hosts")}
    return {**slurm.env, **home}


@pytest.mark.sampled(10)
class TestSlurm(HostContract, NewHostContract, StopHostContract):
    """Every check has its own job."""

    @pytest.fixture
    def place(self, slurm: Slurm) -> ProviderUnderTest:
        return ProviderUnderTest("slurm", env=settings(slurm))


@pytest.mark.sampled(12)
class TestSlurmLost(LossContract):
    """Slurm's programs are called through a line that can be cut."""

    @pytest.fixture
    def place(self, slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderUnderTest]:
        line = Line(tmp_path_factory.mktemp("line") / "line")
        env = {**settings(slurm), "MNGR__PROVIDERS__SLURM__THROUGH": f'["{line.program}"]'}
        yield ProviderUnderTest("slurm", env=env, cut_connections=line.cut, restore_connections=line.mend)
        line.cut()
