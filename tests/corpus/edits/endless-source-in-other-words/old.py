from streamlet import chunks


def numbers():
    at = 0
    while True:
        yield at
        at += 1


def test_chunks_are_made_on_demand():
    made = chunks(numbers(), size=2)
    assert next(made) == [0, 1]
