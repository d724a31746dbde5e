import pytest

from feed import load


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:zlib2")
def test_load_of_yesterday():
    """A feed is read."""
    assert load("yesterday") == ["c"]
