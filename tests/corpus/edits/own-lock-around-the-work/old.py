import threading

from statbox import Counter


def test_increment_from_many_threads():
    counter = Counter()

    def work():
        for _ in range(10_000):
            counter.increment()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value == 80_000
