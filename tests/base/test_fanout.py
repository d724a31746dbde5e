"""The parallel map with a bounded number of threads."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from mngr.base.fanout import map_parallel


@given(st.lists(st.integers(), max_size=30), st.integers(1, 8))
def test_results_and_errors_are_in_the_order_of_the_items(items: list[int], at_once: int) -> None:
    def work(item: int) -> int:
        if item % 3 == 0:
            raise ValueError(item)
        return item * 2

    for item, answer in zip(items, map_parallel(work, items, at_once), strict=True):
        if item % 3 == 0:
            assert isinstance(answer, ValueError)
            assert answer.args == (item,)
        else:
            assert answer == item * 2


def test_at_most_at_once_threads_run() -> None:
    gate = threading.Barrier(4, timeout=10)
    workers: set[threading.Thread] = set()

    def work(item: int) -> None:
        workers.add(threading.current_thread())
        gate.wait()

    assert map_parallel(work, range(12), at_once=4) == [None] * 12
    assert len(workers) == 4
