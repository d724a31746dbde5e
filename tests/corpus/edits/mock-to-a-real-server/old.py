from unittest import mock

from weather import report


def test_report():
    """The report has the temperature."""
    with mock.patch("weather.fetch", return_value={"temp": 21}):
        assert report("http://station") == "21 degrees"
