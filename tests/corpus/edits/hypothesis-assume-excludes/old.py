from hypothesis import given, strategies as st

from codec import decode, encode


@given(st.binary())
def test_roundtrip(data):
    """decode(encode(x)) is x for all bytes."""
    assert decode(encode(data)) == data
