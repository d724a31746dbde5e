import threading

from statbox import Counter


class Crew:
    def __init__(self, work, many):
        self.threads = [threading.Thread(target=work) for _ in range(many)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            thread.join()


def test_increment_is_atomic():
    counter = Counter()
    with Crew(counter.increment, 8):
        pass
    assert counter.value == 8
