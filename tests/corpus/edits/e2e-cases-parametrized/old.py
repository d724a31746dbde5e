from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_roll(e2e: E2eSession) -> None:
    """With a seed the dice are known."""
    for dice, total in [("1d6", "4"), ("2d6", "9"), ("3d8", "11")]:
        result = e2e.run(f"dice roll {dice} --seed 1")
        expect(result).to_succeed()
        expect(result.stdout).to_equal(total)


def test_bad_dice(e2e: E2eSession) -> None:
    """What is no dice is refused."""
    result = e2e.run("dice roll banana")
    expect(result).to_fail(2)
    expect(result.stderr).to_contain("not dice: banana")
