from hypothesis import given
from hypothesis import strategies as st

from codec import decode, encode


@given(st.integers(min_value=0, max_value=255))
def test_codec(thing):
    """What was encoded can be decoded."""
    assert decode(encode(thing)) == thing
