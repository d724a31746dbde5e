"""Clean rooms are reused for the same commit, and for nothing else."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.tmr.cleanroom.clean_room import CleanRoom, CleanRoomBroken
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.verify.verify import verify
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest
from tests.tmr.world import BARE, PYTEST, World, new_world

CLAIMS = 10
# Each test reports the clean room in which it runs.
TESTS = "import os, pathlib\n\n" + "\n\n".join(
    f"def test_{number}():\n    place = pathlib.Path({{log!r}}, '{number}')\n"
    f"    place.write_text(os.environ['MNGR_AGENT_DIR'])\n"
    for number in range(CLAIMS)
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("reuse")
    (root / "log").mkdir()
    with new_world(root, {"tests/test_room.py": TESTS.format(log=str(root / "log"))}) as world:
        yield world


@contextlib.contextmanager
def open_pool(world: World, run: str, at_once: int) -> Iterator[CleanRoomPool]:
    """Yield a pool, and close it."""
    options = CleanRoomOptions(env=BARE)
    with contextlib.closing(CleanRoomPool(world.fleet, run, str(world.repo), options, at_once=at_once)) as rooms:
        yield rooms


def identify(room: CleanRoom) -> str:
    """Return what no other clean room has."""
    return room.run(["printenv", "MNGR_AGENT_DIR"]).out


def list_rooms(world: World, run: str) -> list[str]:
    """Return the names of the existing clean rooms of a run."""
    return sorted(agent.name for agent in world.fleet.list().agents if agent.labels.get("run") == run)


@pytest.mark.agents
def test_ten_claims_on_one_commit_use_no_more_rooms_than_may_exist(world: World) -> None:
    claim = world.write({"tests/test_more.py": "def test_more():\n    pass\n"})
    options = VerifyOptions(pytest=PYTEST, runs=1)
    with open_pool(world, "claims", 2) as rooms, concurrent.futures.ThreadPoolExecutor(CLAIMS) as threads:
        requests = [
            VerifyRequest(test=world.test(f"test_{number}"), commit=claim, base=world.base, is_one_of_many=True)
            for number in range(CLAIMS)
        ]
        receipts = list(threads.map(lambda request: verify(rooms, request, options), requests))
    used = {path.read_text() for path in Path(world.root, "log").iterdir()}
    assert [receipt.results[0].outcome for receipt in receipts] == ["pass"] * CLAIMS
    assert len(used) <= 2
    assert list_rooms(world, "claims") == []


def test_a_room_serves_one_commit_only(world: World) -> None:
    other = world.write({"other.txt": "other\n"})
    with open_pool(world, "commits", 1) as rooms:
        seen = []
        for commit in (world.base, world.base, other, world.base):
            with rooms.acquire(commit) as room:
                seen.append((room.commit, identify(room)))
            assert list_rooms(world, "commits") == ["tmr-commits-clean-room-1"]
    assert [commit for commit, _ in seen] == [world.base, world.base, other, world.base]
    assert seen[0] == seen[1] and len(set(seen)) == 3
    assert list_rooms(world, "commits") == []


def test_a_room_is_kept_for_its_commit_while_others_can_be_created(world: World) -> None:
    other = world.write({"another.txt": "another\n"})
    with open_pool(world, "kept", 2) as rooms:
        seen = []
        for commit in (world.base, other, world.base, other):
            with rooms.acquire(commit) as room:
                seen.append(identify(room))
        assert len(list_rooms(world, "kept")) == 2
    assert seen[:2] == seen[2:] and seen[0] != seen[1]


def test_a_reused_room_has_no_files_and_no_variables_of_its_last_user(world: World) -> None:
    with open_pool(world, "traces", 1) as rooms:
        with rooms.acquire(world.base) as first:
            first.env = {"LEFT": "behind"}
            first.write("left.txt", b"behind")
        with rooms.acquire(world.base) as second:
            assert second is first
            shown = second.run(["sh", "-c", "ls; echo $LEFT"], clean=False)
            assert "left.txt" not in shown.out and "behind" not in shown.out
            second.write("mine.txt", b"kept until the next clean command")
            assert second.read("mine.txt") == b"kept until the next clean command"


def test_a_room_that_broke_is_not_reused(world: World) -> None:
    with open_pool(world, "broken", 1) as rooms:
        with pytest.raises(CleanRoomBroken), rooms.acquire(world.base) as first:
            seen = identify(first)
            raise CleanRoomBroken("a test broke it")
        with rooms.acquire(world.base) as second:
            assert identify(second) != seen
