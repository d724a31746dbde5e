from unittest import mock

from wordcount import count_file


def test_count_file():
    """Words of a file are counted."""
    with mock.patch("wordcount.read", return_value="one two"):
        assert count_file("x.txt") == 2
