from concurrent.futures import ThreadPoolExecutor

from statbox import Counter


def test_increment_is_atomic():
    counter = Counter()

    def work():
        for _ in range(10_000):
            counter.increment()

    with ThreadPoolExecutor(max_workers=8) as pool:
        futures = [pool.submit(work) for _ in range(8)]
    for future in futures:
        future.result()
    assert counter.value == 80_000
