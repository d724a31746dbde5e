"""Where agents go and who is served first, while hosts do not answer."""

from __future__ import annotations

import select
import threading

from mngr.mapreduce.hosts.slots import HostSlots
from mngr.mapreduce.worker_threads import WorkerThreads
from tests.conftest import IS_FULL_SCALE, wait_for


def moored(**hosts: list[str]) -> HostSlots:
    made = HostSlots(2)
    for name, slugs in hosts.items():
        made.add_host(name, slugs)
    return made


def test_nobody_goes_to_a_host_that_is_away() -> None:
    places = moored(h1=["a"], h2=["b"])
    assert places.assign_host("c", {"h1"}).name == "h2"
    assert places.assign_host("d", {"h1"}).name is None
    assert places.assign_host("e").name == "h1"


def test_no_host_is_made_for_those_who_can_wait_for_one_that_is_away() -> None:
    places = moored(h1=["a"], h2=["b"])
    assert [places.count_placeable(wanted, {"h1"}) for wanted in (1, 2, 3)] == [1, 1, 2]
    assert places.count_placeable(3, ()) == 3
    assert places.count_placeable(3, {"h1", "h2"}) == 3  # nobody answers, so others are made


def test_nobody_waits_for_a_host_that_is_away_and_empty_and_it_is_the_first_to_go() -> None:
    assert moored(h1=[], h2=["b"]).count_placeable(2, {"h1"}) == 2
    assert moored(h1=[], h2=[]).take_idle_hosts(1, {"h1"}) == ["h1"]


def test_nothing_wakes_anybody_once_all_is_heard() -> None:
    crew, heard, count = WorkerThreads(pull=4), 0, 20_000 if IS_FULL_SCALE else 4_000

    def have_all() -> bool:
        nonlocal heard
        heard += len(crew.take_results())
        return heard == count

    for number in range(count):
        crew.submit("pull", str(number), lambda: None)
    wait_for(have_all, timeout=60)
    wait_for(lambda: not crew.take_results() and not select.select([crew.wake_fd], [], [], 0)[0])


def test_who_had_his_place_on_a_host_that_is_away_gets_another() -> None:
    places = moored(h1=["a"], h2=["b"])
    assert (places.find_host("a"), places.assign_host("a", {"h1"}).name, places.find_host("a")) == (
        "h1",
        "h2",
        "h2",
    )


def test_jobs_at_a_place_that_hangs_keep_no_other_place_waiting() -> None:
    crew, free, begun = WorkerThreads(pull=2), threading.Event(), threading.Semaphore(0)
    done: list[str] = []

    def hang() -> None:
        begun.release()
        free.wait(30)

    def have(count: int) -> bool:
        done.extend(slug for _, slug, _ in crew.take_results())
        return len(done) == count

    for number in range(4):
        crew.submit("pull", f"hangs-{number}", hang, "h1")
    assert all(begun.acquire(timeout=10) for _ in range(2))  # nobody is left
    for number in range(4):
        crew.submit("pull", f"goes-{number}", lambda: None, "h2")
    try:
        wait_for(lambda: have(4))
        assert sorted(done) == [f"goes-{number}" for number in range(4)]
    finally:
        free.set()
    wait_for(lambda: have(8))
