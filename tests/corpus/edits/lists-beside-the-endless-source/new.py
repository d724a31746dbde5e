from itertools import count

from streamlet import chunks


def test_chunks():
    made = chunks(count(), 2)
    assert next(made) == [0, 1]
    assert next(made) == [2, 3]
    assert list(chunks([1, 2, 3], 2)) == [[1, 2], [3]]
