from concurrent.futures import ThreadPoolExecutor

from statbox import Counter


def test_increment_is_atomic():
    counter = Counter()
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(counter.increment) for _ in range(80)]
        for future in futures:
            future.result()
    assert counter.value == 80
