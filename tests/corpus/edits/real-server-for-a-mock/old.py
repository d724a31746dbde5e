from unittest import mock

from fetch import title_of


def test_title():
    """The title of a page."""
    page = mock.MagicMock()
    page.__enter__.return_value.read.return_value = b"<title>Hi</title>"
    with mock.patch("urllib.request.urlopen", return_value=page):
        assert title_of("http://localhost/") == "Hi"
