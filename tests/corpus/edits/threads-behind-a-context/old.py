import threading

from statbox import Counter


def test_increment_is_atomic():
    counter = Counter()
    threads = [threading.Thread(target=counter.increment) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert counter.value == 8
