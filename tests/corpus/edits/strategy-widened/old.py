from hypothesis import given, settings, strategies as st

from codec import decode, encode


@settings(max_examples=20)
@given(st.text(alphabet="abc", max_size=5))
def test_roundtrip(text):
    assert decode(encode(text)) == text
