import pytest

from geo import distance


def test_old_order_is_deprecated():
    with pytest.warns(DeprecationWarning):
        assert distance(lon=1, lat=2) == 0
