from streamlet import squares


def test_squares_are_lazy():
    read = []

    def source():
        for number in (1, 2, 3):
            read.append(number)
            yield number

    made = squares(source())
    assert read == []
    assert next(made) == 1
    assert read == [1]
