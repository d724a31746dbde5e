"""Names and records in a home: one owner each, also when many reach for them at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mngr.base import names
from mngr.base.paths import Home
from mngr.host import store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(str(tmp_path / "home"))
    made.create()
    return made


def together(work: Callable[[str], None], count: int = 16) -> list[str]:
    """Run `work` in many threads at the same moment, each with an id; the ids for which it did not raise."""
    gate = threading.Barrier(count)
    done: list[str] = []

    def one(agent_id: str) -> None:
        gate.wait()
        try:
            work(agent_id)
        except store.NameTaken:
            return
        done.append(agent_id)

    threads = [threading.Thread(target=one, args=(names.generate_id(),)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def reserve(home: Home, name: str) -> Callable[[str], None]:
    def work(agent_id: str) -> None:
        os.mkdir(home.agent_dir(agent_id))
        store.reserve_name(home, name, agent_id)

    return work


def test_a_name_has_one_owner(home: Home) -> None:
    for number in range(20):
        (owner,) = together(reserve(home, f"n{number}"))
        assert store.find_id(home, f"n{number}") == owner


def test_a_name_whose_agent_is_gone_goes_to_one(home: Home) -> None:
    for number in range(20):
        os.symlink(names.generate_id(), os.path.join(home.names, f"n{number}"))
        (owner,) = together(reserve(home, f"n{number}"))
        assert store.find_id(home, f"n{number}") == owner


def test_only_its_owner_gives_a_name_back(home: Home) -> None:
    owner, other = names.generate_id(), names.generate_id()
    reserve(home, "foo")(owner)
    store.release_name(home, "foo", other)
    assert store.find_id(home, "foo") == owner and store.list_names(home) == ["foo"]
    store.release_name(home, "foo", owner)
    store.release_name(home, "foo", owner)
    assert store.find_id(home, "foo") is None and store.list_names(home) == []


def test_who_is_at_work_can_be_told_later() -> None:
    me = store.describe_this_process()
    assert store.is_owner_alive(me)
    for changed in ({"start": "1"}, {"boot": "x"}, {"pid": 2**22 + 1}, {"pid": "1"}, {"pid": None}):
        assert not store.is_owner_alive({**me, **changed})
    assert not store.is_owner_alive(None) and not store.is_owner_alive({})
