"""Slurm's programs on another machine."""

from __future__ import annotations

import pytest

from mngr.base.errors import MngrError, Unreachable
from mngr.providers.slurm.slurm_programs import SlurmPrograms


@pytest.mark.parametrize("end", ["exit 255", "kill -KILL $$", "kill -HUP $$"])
def test_a_lost_connection_raises_unreachable(end: str) -> None:
    with pytest.raises(Unreachable):
        SlurmPrograms(["sh", "-c", end]).list_jobs()


def test_a_failed_program_raises_mngr_error_and_not_unreachable() -> None:
    with pytest.raises(MngrError) as caught:
        SlurmPrograms(["sh", "-c", "echo 'squeue: error: no such option' >&2; exit 1"]).list_jobs()
    assert not isinstance(caught.value, Unreachable)
