import pytest

from paint import ColourError, parse_colour


def test_short_hex():
    assert parse_colour("#fff") == (255, 255, 255)


def test_long_hex():
    assert parse_colour("#102030") == (16, 32, 48)


def test_name():
    assert parse_colour("navy") == (0, 0, 128)


def test_rgb():
    assert parse_colour("rgb(1, 2, 3)") == (1, 2, 3)


def test_unknown():
    with pytest.raises(ColourError, match="unknown colour: blurple"):
        parse_colour("blurple")
