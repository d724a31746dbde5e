import pytest

from lengths import parse


def test_unit_is_needed():
    with pytest.raises(ValueError):
        parse("12")
    with pytest.raises(ValueError, match="unknown unit: 'zz'"):
        parse("12zz")
    with pytest.raises(TypeError):
        parse(None)
