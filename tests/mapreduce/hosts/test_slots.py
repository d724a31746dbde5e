"""Where agents go and who is served first, while hosts do not answer."""

from __future__ import annotations

import select
import threading

from mngr.mapreduce.hosts.slots import Moorings
from mngr.mapreduce.worker_threads import Crew
from tests.conftest import FULL, wait_for


def moored(**hosts: list[str]) -> Moorings:
    made = Moorings(2)
    for name, slugs in hosts.items():
        made.adopt(name, slugs)
    return made


def test_nobody_goes_to_a_host_that_is_away() -> None:
    places = moored(h1=["a"], h2=["b"])
    assert places.take("c", {"h1"}).name == "h2"
    assert places.take("d", {"h1"}).name is None
    assert places.take("e").name == "h1"


def test_no_host_is_made_for_those_who_can_wait_for_one_that_is_away() -> None:
    places = moored(h1=["a"], h2=["b"])
    assert [places.fit(wanted, {"h1"}) for wanted in (1, 2, 3)] == [1, 1, 2]
    assert places.fit(3, ()) == 3
    assert places.fit(3, {"h1", "h2"}) == 3  # nobody answers, so others are made


def test_nobody_waits_for_a_host_that_is_away_and_empty_and_it_is_the_first_to_go() -> None:
    assert moored(h1=[], h2=["b"]).fit(2, {"h1"}) == 2
    assert moored(h1=[], h2=[]).spare(1, {"h1"}) == ["h1"]


def test_nothing_wakes_anybody_once_all_is_heard() -> None:
    crew, heard, count = Crew(pull=4), 0, 20_000 if FULL else 4_000

    def have_all() -> bool:
        nonlocal heard
        heard += len(crew.done())
        return heard == count

    for number in range(count):
        crew.do("pull", str(number), lambda: None)
    wait_for(have_all, timeout=60)
    wait_for(lambda: not crew.done() and not select.select([crew.wake], [], [], 0)[0])


def test_who_had_his_place_on_a_host_that_is_away_gets_another() -> None:
    places = moored(h1=["a"], h2=["b"])
    assert (places.find("a"), places.take("a", {"h1"}).name, places.find("a")) == ("h1", "h2", "h2")


def test_jobs_at_a_place_that_hangs_keep_no_other_place_waiting() -> None:
    crew, free, begun = Crew(pull=2), threading.Event(), threading.Semaphore(0)
    done: list[str] = []

    def hang() -> None:
        begun.release()
        free.wait(30)

    def have(count: int) -> bool:
        done.extend(slug for _, slug, _ in crew.done())
        return len(done) == count

    for number in range(4):
        crew.do("pull", f"hangs-{number}", hang, "h1")
    assert all(begun.acquire(timeout=10) for _ in range(2))  # nobody is left
    for number in range(4):
        crew.do("pull", f"goes-{number}", lambda: None, "h2")
    try:
        wait_for(lambda: have(4))
        assert sorted(done) == [f"goes-{number}" for number in range(4)]
    finally:
        free.set()
    wait_for(lambda: have(8))
