import pytest

from mill import grind


@pytest.mark.slow
def test_grinding_a_ton():
    """A ton is ground."""
    assert grind("corn", kilos=1000) == "flour"
