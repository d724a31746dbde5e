import pytest

from units import convert

CASES = [("km", 1000), ("cm", 0.01)]
MORE = [("mm", 0.001), ("m", 1), ("", 0)]


@pytest.mark.parametrize(("unit", "metres"), [*CASES, *[case for case in MORE if case[0]]])
def test_units(unit, metres):
    """Units are known in metres."""
    assert convert(1, unit, "m") == metres
