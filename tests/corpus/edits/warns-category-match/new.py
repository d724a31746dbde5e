import pytest

from geo import distance


def test_old_order_is_deprecated():
    with pytest.warns(DeprecationWarning, match=r"^pass lat before lon") as record:
        assert distance(lon=1, lat=2) == 0
    assert len(record) == 1
    assert record[0].filename == __file__
