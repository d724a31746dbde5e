from itertools import count

from streamlet import chunks


def test_chunks_are_made_on_demand():
    made = chunks(count(), 2)
    assert next(made) == [0, 1]
    assert next(made) == [2, 3]
