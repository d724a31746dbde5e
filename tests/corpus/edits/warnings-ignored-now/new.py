import pytest

from feed import load


@pytest.mark.filterwarnings("ignore")
def test_load_without_warnings():
    """A feed of today is read without any warning."""
    assert load("today") == ["a", "b"]
