import threading

from statbox import Counter


def run_at_once(work, times):
    threads = [threading.Thread(target=work) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_increment_is_atomic():
    counter = Counter()

    def work():
        for _ in range(10_000):
            counter.increment()

    run_at_once(work, 8)
    assert counter.value == 80_000
