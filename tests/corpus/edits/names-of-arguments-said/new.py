from vessel import Vessel


def full() -> Vessel:
    return Vessel(size=5, full=True)


def test_pouring():
    """What is poured out is gone."""
    assert full().pour(litres=2) == 3
    assert full().pour(litres=9) == 0
