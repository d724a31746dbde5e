import pytest

from roman import to_roman


def test_four():
    assert to_roman(4) == "IV"


def test_zero_is_refused():
    with pytest.raises(ValueError):
        to_roman(0)
