"""Slurm's programs on another machine."""

from __future__ import annotations

import pytest

from mngr.base.errors import MngrError, Unreachable
from mngr.providers.slurm.slurm_programs import SlurmPrograms


@pytest.mark.parametrize("end", ["exit 255", "kill -KILL $$", "kill -HUP $$"])
def test_a_connection_that_ends_in_the_middle_is_no_answer(end: str) -> None:
    with pytest.raises(Unreachable):
        SlurmPrograms(["sh", "-c", end]).list_jobs()


def test_a_program_that_fails_there_is_an_answer() -> None:
    with pytest.raises(MngrError) as caught:
        SlurmPrograms(["sh", "-c", "echo 'squeue: error: no such option' >&2; exit 1"]).list_jobs()
    assert not isinstance(caught.value, Unreachable)
