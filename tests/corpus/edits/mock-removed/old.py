from unittest import mock

from wordcount import count_file


def test_count_file():
    """Words of a file are counted."""
    with mock.patch("wordcount.read", return_value="one two"):
        assert count_file("x.txt") == 2


def test_name_of_the_function():
    """The function says what it does in its help."""
    assert count_file.__doc__ == "How many words a file has."
