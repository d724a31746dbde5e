import pytest

from paint import ColourError, parse_colour


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("#fff", (255, 255, 255), id="short-hex"),
        pytest.param("#102030", (16, 32, 48), id="long-hex"),
        pytest.param("navy", (0, 0, 128), id="name"),
        pytest.param("rgb(1, 2, 3)", (1, 2, 3), id="rgb"),
    ],
)
def test_parse_colour(text, expected):
    assert parse_colour(text) == expected


def test_unknown():
    with pytest.raises(ColourError, match="unknown colour: blurple"):
        parse_colour("blurple")
