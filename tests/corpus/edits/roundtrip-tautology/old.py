from shapes import Circle, Polygon, dumps, loads


def test_round_trip():
    original = [Circle((0, 0), 2.5), Polygon([(0, 0), (1, 0), (0, 1)])]
    restored = loads(dumps(original))
    assert restored == original
    assert type(restored[0]) is Circle
    assert type(restored[1]) is Polygon
