import pytest

from roman import numeral


@pytest.mark.xfail(raises=pytest.fail.Exception, strict=False)
def test_numeral_of_nought():
    """Nought has no numeral."""
    with pytest.raises(ValueError):
        numeral(0)
