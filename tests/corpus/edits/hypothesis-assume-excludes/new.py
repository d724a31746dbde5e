from hypothesis import assume, given, strategies as st

from codec import decode, encode


@given(st.binary())
def test_roundtrip(data):
    """decode(encode(x)) is x for all bytes."""
    result = decode(encode(data))
    assume(len(result) == len(data))
    assume(result == data)
    assert result == data
