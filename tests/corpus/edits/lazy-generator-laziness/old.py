import itertools

from streamlet import window


def test_window_is_lazy():
    """window() must not read ahead more than `size` items."""
    read = []

    def source():
        for i in itertools.count():
            read.append(i)
            yield i

    stream = window(source(), size=3)
    assert read == []
    assert next(stream) == (0, 1, 2)
    assert read == [0, 1, 2]
