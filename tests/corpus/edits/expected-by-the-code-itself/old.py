import pytest

from roman import from_roman, to_roman

KNOWN = {1: "I", 4: "IV", 9: "IX", 40: "XL", 90: "XC", 400: "CD", 1994: "MCMXCIV", 3999: "MMMCMXCIX"}


@pytest.mark.parametrize("number", sorted(KNOWN))
def test_to_roman(number):
    """Numbers are written the way the Romans did, subtractions included."""
    assert to_roman(number) == KNOWN[number]


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_out_of_range(number):
    with pytest.raises(ValueError, match="from 1 to 3999"):
        to_roman(number)


def test_from_roman():
    assert from_roman("MCMXCIV") == 1994
