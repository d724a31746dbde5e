from hypothesis import example, given, settings, strategies as st

from codec import decode, encode


@settings(max_examples=200)
@given(st.text())
@example("")
@example("\x00")
@example("ab\ncabc")
def test_roundtrip(text):
    assert decode(encode(text)) == text
