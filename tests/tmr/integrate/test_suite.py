"""The suite in a room that moves from commit to commit: each run is of what that commit says."""

from __future__ import annotations

from pathlib import Path

from mngr.tmr.integrate.suite import Suite
from mngr.tmr.plan import RunPlan
from mngr.tmr.result_cache import ResultCache
from tests.tmr.world import PYTEST, new_world

TEST = "from shop import COIN\n\n\ndef test_coin():\n    assert COIN == 'EUR'\n"


def test_two_versions_of_one_size_in_one_second_are_told_apart(tmp_path: Path) -> None:
    with new_world(tmp_path, {"shop.py": "COIN = 'EUR'\n", "tests/test_shop.py": TEST}) as world:
        commits = {"pass": world.base, "fail": world.write({"shop.py": "COIN = 'USD'\n"})}
        rooms, shelf = world.rooms, ResultCache(str(world.repo), "suite")
        suite = Suite(
            world.fleet.context.local_host,
            str(world.repo),
            RunPlan(base=world.base, pytest=PYTEST),
            rooms,
            shelf,
            {},
        )
        try:
            for _ in range(3):
                for outcome, commit in commits.items():
                    assert suite.rerun_all(commit).outcomes == {"tests/test_shop.py::test_coin": outcome}
        finally:
            suite.close()
