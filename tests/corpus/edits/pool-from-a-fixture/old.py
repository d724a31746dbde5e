from concurrent.futures import ThreadPoolExecutor

from statbox import Counter


def test_increment_is_atomic():
    counter = Counter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: counter.increment(), range(80)))
    assert counter.value == 80
