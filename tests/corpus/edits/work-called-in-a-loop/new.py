from statbox import Counter


def test_increments_add_up():
    counter = Counter()

    def work():
        for _ in range(10_000):
            counter.increment()

    for _ in range(8):
        work()
    assert counter.value == 80_000
