from shapes import Circle, Polygon, dumps, loads


def test_round_trip():
    shapes = [Circle((0, 0), 2.5), Polygon([(0, 0), (1, 0), (0, 1)])]
    text = dumps(shapes)
    original = loads(text)
    restored = loads(text)
    assert restored == original
    assert type(restored[0]) is type(original[0])
    assert type(restored[1]) is type(original[1])
