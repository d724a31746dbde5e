from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.mark.parametrize(
    ("dice", "total"),
    [("1d6", "4"), ("2d6", "9"), ("3d8", "11"), ("1d1", "1")],
    ids=lambda value: value,
)
def test_roll(e2e: E2eSession, dice: str, total: str) -> None:
    """With a seed the dice are known."""
    result = e2e.run(f"dice roll {dice} --seed 1")
    expect(result).to_succeed()
    expect(result.stdout).to_equal(total)


def test_bad_dice(e2e: E2eSession) -> None:
    """What is no dice is refused."""
    result = e2e.run("dice roll banana")
    expect(result).to_fail(2)
    expect(result.stderr).to_contain("not dice: banana")
