from hypothesis import given
from hypothesis import strategies as st

from shelf import arrange


@given(st.lists(st.integers()))
def test_arranging(things):
    """Things are put in order."""
    assert arrange(things) == sorted(things)
