"""The suite in a clean room that moves from commit to commit: each run uses that commit's code."""

from __future__ import annotations

from pathlib import Path

from mngr.tmr.integrate.suite import Suite
from mngr.tmr.plan import RunPlan
from mngr.tmr.result_cache import ResultCache
from tests.tmr.world import PYTEST, new_world

TEST = "from shop import COIN\n\n\ndef test_coin():\n    assert COIN == 'EUR'\n"


def test_two_versions_with_the_same_size_and_second_are_distinguished(tmp_path: Path) -> None:
    with new_world(tmp_path, {"shop.py": "COIN = 'EUR'\n", "tests/test_shop.py": TEST}) as world:
        commits = {"pass": world.base, "fail": world.write({"shop.py": "COIN = 'USD'\n"})}
        clean_rooms, cache = world.rooms, ResultCache(str(world.repo), "suite")
        suite = Suite(
            world.fleet.context.local_host,
            str(world.repo),
            RunPlan(base=world.base, pytest=PYTEST),
            clean_rooms,
            cache,
            {},
        )
        try:
            for _ in range(3):
                for outcome, commit in commits.items():
                    assert suite.rerun_all(commit).outcomes == {"tests/test_shop.py::test_coin": outcome}
        finally:
            suite.close()
