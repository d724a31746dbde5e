import pytest

from roman import from_roman, to_roman

KNOWN = {number: to_roman(number) for number in (1, 4, 9, 40, 90, 400, 1994, 3999)}


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
