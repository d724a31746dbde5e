"""A parallel map with a bounded number of threads. It returns a result or an error for each item."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")
    R = TypeVar("R")


def map_parallel(work: Callable[[T], R], items: Iterable[T], at_once: int = 8) -> list[R | Exception]:
    """Apply `work` to every item and return the results in order. A call that failed yields its exception."""
    inputs = list(items)
    results: list[R | Exception] = [RuntimeError("not run")] * len(inputs)
    indexes = iter(range(len(inputs)))
    lock = threading.Lock()
    stop = threading.Event()

    def worker() -> None:
        while not stop.is_set():
            with lock:
                index = next(indexes, None)
            if index is None:
                return
            try:
                results[index] = work(inputs[index])
            except Exception as error:
                results[index] = error

    if len(inputs) == 1:
        worker()
        return results
    threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(at_once, len(inputs)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        stop.set()
        raise
    return results
