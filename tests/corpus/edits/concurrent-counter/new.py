import threading

from statbox import Counter


def test_increment_is_atomic():
    counter = Counter()

    def work():
        for _ in range(10_000):
            counter.increment()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
        t.join()
    assert counter.value == 80_000
