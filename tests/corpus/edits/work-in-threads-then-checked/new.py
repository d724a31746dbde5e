import threading

from counter import Counter


def test_counting():
    """Every count is counted."""
    counter = Counter()
    threads = [threading.Thread(target=counter.add, args=(10,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.total() == 40
