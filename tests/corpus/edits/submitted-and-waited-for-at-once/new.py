from concurrent.futures import ThreadPoolExecutor

from statbox import Counter


def test_increment_is_atomic():
    counter = Counter()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(80):
            pool.submit(counter.increment).result()
    assert counter.value == 80
