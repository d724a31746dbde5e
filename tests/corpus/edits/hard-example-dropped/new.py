from hypothesis import given
from hypothesis import strategies as st

from codec import decode, encode


@given(st.text())
def test_any_text(text):
    """What was encoded can be decoded."""
    assert decode(encode(text)) == text
