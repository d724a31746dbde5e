import pytest

from units import UnitError, convert


def test_unknown_unit():
    """An unknown unit is named."""
    with pytest.raises(UnitError) as caught:
        convert(1, "elbow", "m")
    assert "elbow" in str(caught.value)
