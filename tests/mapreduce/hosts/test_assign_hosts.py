"""Which host an agent gets, and which job runs first, while some hosts do not answer."""

from __future__ import annotations

import select
import threading

from mngr.mapreduce.hosts.assign_hosts import HostSlots
from mngr.mapreduce.worker_threads import JobKind, WorkerThreads
from tests.conftest import IS_FULL_SCALE, wait_for


def make_slots(**hosts: list[str]) -> HostSlots:
    slots = HostSlots(2)
    for name, slugs in hosts.items():
        slots.add_host(name, slugs)
    return slots


def test_no_agent_is_assigned_to_an_unreachable_host() -> None:
    slots = make_slots(h1=["a"], h2=["b"])
    assert slots.assign_host("c", {"h1"}).name == "h2"
    assert slots.assign_host("d", {"h1"}).name is None
    assert slots.assign_host("e").name == "h1"


def test_agents_wait_for_free_slots_on_an_unreachable_host() -> None:
    slots = make_slots(h1=["a"], h2=["b"])
    assert [slots.count_placeable(wanted, {"h1"}) for wanted in (1, 2, 3)] == [1, 1, 2]
    assert slots.count_placeable(3, ()) == 3
    assert slots.count_placeable(3, {"h1", "h2"}) == 3  # no host answers, so new hosts are created


def test_an_empty_unreachable_host_is_not_waited_for_and_is_released_first() -> None:
    assert make_slots(h1=[], h2=["b"]).count_placeable(2, {"h1"}) == 2
    assert make_slots(h1=[], h2=[]).take_idle_hosts(1, {"h1"}) == ["h1"]


def test_the_wake_fd_is_quiet_after_all_results_were_taken() -> None:
    workers, taken, count = WorkerThreads({JobKind.PULL: 4}), 0, 20_000 if IS_FULL_SCALE else 4_000

    def has_taken_all() -> bool:
        nonlocal taken
        taken += len(workers.take_results())
        return taken == count

    for number in range(count):
        workers.submit(JobKind.PULL, str(number), lambda: None)
    wait_for(has_taken_all, timeout=60)
    wait_for(lambda: not workers.take_results() and not select.select([workers.wake_fd], [], [], 0)[0])


def test_a_task_assigned_to_an_unreachable_host_gets_another_host() -> None:
    slots = make_slots(h1=["a"], h2=["b"])
    assert (slots.find_host("a"), slots.assign_host("a", {"h1"}).name, slots.find_host("a")) == (
        "h1",
        "h2",
        "h2",
    )


def test_hanging_jobs_of_one_host_do_not_delay_another_host() -> None:
    workers, released, started = WorkerThreads({JobKind.PULL: 2}), threading.Event(), threading.Semaphore(0)
    done: list[str] = []

    def hang() -> None:
        started.release()
        released.wait(30)

    def has_finished(count: int) -> bool:
        done.extend(result.subject for result in workers.take_results())
        return len(done) == count

    for number in range(4):
        workers.submit(JobKind.PULL, f"hangs-{number}", hang, "h1")
    assert all(started.acquire(timeout=10) for _ in range(2))  # both regular threads hang now
    for number in range(4):
        workers.submit(JobKind.PULL, f"goes-{number}", lambda: None, "h2")
    try:
        wait_for(lambda: has_finished(4))
        assert sorted(done) == [f"goes-{number}" for number in range(4)]
    finally:
        released.set()
    wait_for(lambda: has_finished(8))
