import pytest

from sizes import parse_size


def test_parse_size(caplog):
    assert parse_size("1K") == 1024
    assert parse_size("7") == 7
    with pytest.raises(ValueError):
        parse_size("1X")
