from itertools import count

from streamlet import chunks


def test_chunks_are_made_on_demand():
    made = chunks(count(), size=2)
    assert next(made) == [0, 1]
