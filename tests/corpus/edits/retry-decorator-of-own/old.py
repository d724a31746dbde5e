import threading

from counterd import Counter


def hammer(counter, times):
    for _ in range(times):
        counter.increment()


def test_increment_is_atomic():
    """No increment of any thread is lost."""
    counter = Counter()
    threads = [threading.Thread(target=hammer, args=(counter, 1000)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value == 8000


def test_reset():
    """Reset goes back to zero."""
    counter = Counter(start=5)
    counter.reset()
    assert counter.value == 0
