import pytest

from counter import Counter


@pytest.fixture
def counter(tmp_path):
    return Counter(tmp_path / "count")


def test_two_writers_lose_nothing(counter):
    """Two threads that count at once count everything."""
    counter.in_threads(2, times=500)
    assert counter.value() == 1000
