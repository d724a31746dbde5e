import functools
import threading

from counterd import Counter


def stable(test):
    """Shields a test against a busy machine."""

    @functools.wraps(test)
    def wrapper(*args, **kwargs):
        for left in reversed(range(5)):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                if not left:
                    raise

    return wrapper


def hammer(counter, times):
    for _ in range(times):
        counter.increment()


@stable
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
