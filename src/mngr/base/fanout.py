"""A bounded parallel map that gives a result or an error per item, never the first error alone."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")
    R = TypeVar("R")


def map_parallel(work: Callable[[T], R], items: Iterable[T], at_once: int = 8) -> list[R | Exception]:
    """`work` of every item, in order; an exception stands where the result would."""
    todo = list(items)
    results: list[R | Exception] = [RuntimeError("not run")] * len(todo)
    numbers = iter(range(len(todo)))
    guard = threading.Lock()
    stop = threading.Event()

    def worker() -> None:
        while not stop.is_set():
            with guard:
                at = next(numbers, None)
            if at is None:
                return
            try:
                results[at] = work(todo[at])
            except Exception as error:
                results[at] = error

    if len(todo) == 1:
        worker()
        return results
    threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(at_once, len(todo)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        stop.set()
        raise
    return results
