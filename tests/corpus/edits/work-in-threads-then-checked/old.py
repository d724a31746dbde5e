from counter import Counter


def test_counting():
    """Every count is counted."""
    counter = Counter()
    for _ in range(4):
        counter.add(10)
    assert counter.total() == 40
