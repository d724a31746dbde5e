from hypothesis import given
from hypothesis import strategies as st

from roman import numeral, value


@given(st.integers(min_value=1, max_value=3999))
def test_round_trip(number):
    """A number comes back."""
    assert value(numeral(number)) == number
