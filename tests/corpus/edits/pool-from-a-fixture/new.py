import pytest
from concurrent.futures import ThreadPoolExecutor

from statbox import Counter


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as made:
        yield made


def test_increment_is_atomic(pool):
    counter = Counter()
    for future in [pool.submit(counter.increment) for _ in range(80)]:
        future.result()
    assert counter.value == 80
