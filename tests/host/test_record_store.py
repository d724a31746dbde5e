"""Names and records in a home: each name has one owner, also under concurrency."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mngr.base import names_and_addresses
from mngr.base.paths import Home
from mngr.host import record_store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    new_home = Home(str(tmp_path / "home"))
    new_home.create()
    return new_home


def run_concurrently(work: Callable[[str], None], count: int = 16) -> list[str]:
    """Run `work` in many threads at the same time, each with an id, and return the ids for which it succeeded."""
    barrier = threading.Barrier(count)
    succeeded: list[str] = []

    def run_one(agent_id: str) -> None:
        barrier.wait()
        try:
            work(agent_id)
        except record_store.NameTaken:
            return
        succeeded.append(agent_id)

    threads = [threading.Thread(target=run_one, args=(names_and_addresses.generate_id(),)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return succeeded


def make_reserver(home: Home, name: str) -> Callable[[str], None]:
    def work(agent_id: str) -> None:
        os.mkdir(home.agent_dir(agent_id))
        record_store.reserve_name(home, name, agent_id)

    return work


def test_concurrent_reservations_of_a_name_have_one_winner(home: Home) -> None:
    for number in range(20):
        (owner,) = run_concurrently(make_reserver(home, f"n{number}"))
        assert record_store.find_id(home, f"n{number}") == owner


def test_a_name_without_its_agent_goes_to_one_new_owner(home: Home) -> None:
    for number in range(20):
        os.symlink(names_and_addresses.generate_id(), os.path.join(home.names, f"n{number}"))
        (owner,) = run_concurrently(make_reserver(home, f"n{number}"))
        assert record_store.find_id(home, f"n{number}") == owner


def test_only_the_owner_can_release_a_name(home: Home) -> None:
    owner, other = names_and_addresses.generate_id(), names_and_addresses.generate_id()
    make_reserver(home, "foo")(owner)
    record_store.release_name(home, "foo", other)
    assert record_store.find_id(home, "foo") == owner and record_store.list_names(home) == ["foo"]
    record_store.release_name(home, "foo", owner)
    record_store.release_name(home, "foo", owner)
    assert record_store.find_id(home, "foo") is None and record_store.list_names(home) == []


def test_is_owner_alive_recognizes_only_the_same_running_process() -> None:
    this_process = record_store.describe_this_process()
    assert record_store.is_owner_alive(this_process)
    for changes in ({"start": "1"}, {"boot": "x"}, {"pid": 2**22 + 1}, {"pid": "1"}, {"pid": None}):
        assert not record_store.is_owner_alive({**this_process, **changes})
    assert not record_store.is_owner_alive(None) and not record_store.is_owner_alive({})
