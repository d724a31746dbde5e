import pytest

from units import convert

CASES = [("km", 1000), ("cm", 0.01)]


@pytest.mark.parametrize(("unit", "metres"), CASES)
def test_units(unit, metres):
    """Units are known in metres."""
    assert convert(1, unit, "m") == metres
