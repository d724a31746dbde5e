from itertools import count

from streamlet import chunks


def test_chunks():
    made = chunks(count(), 2)
    assert next(made) == [0, 1]
