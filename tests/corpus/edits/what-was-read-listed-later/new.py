from streamlet import squares


def test_squares_are_lazy():
    pulled = []

    def numbers():
        for number in (1, 2, 3):
            pulled.append(number)
            yield number

    lazy = squares(numbers())
    assert not pulled
    assert next(lazy) == 1
    assert pulled == [1]
