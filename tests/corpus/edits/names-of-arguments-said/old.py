from vessel import Vessel


def test_pouring():
    """What is poured out is gone."""
    assert Vessel(5, True).pour(2) == 3
    assert Vessel(5, True).pour(9) == 0
