from unittest import mock

import pytest

from fetcher import fetch_json


def test_fetch():
    """The body is decoded as JSON."""
    with mock.patch("fetcher.urlopen") as urlopen:
        urlopen.return_value.__enter__.return_value.read.return_value = b'{"ok": true}'
        assert fetch_json("http://x.example/") == {"ok": True}


def test_bad_scheme():
    """Only http and https are fetched."""
    with pytest.raises(ValueError, match="cannot fetch ftp"):
        fetch_json("ftp://x.example/")
