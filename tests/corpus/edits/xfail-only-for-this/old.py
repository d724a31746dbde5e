import pytest

from roman import numeral


def test_numeral_of_nought():
    """Nought has no numeral."""
    with pytest.raises(ValueError):
        numeral(0)
