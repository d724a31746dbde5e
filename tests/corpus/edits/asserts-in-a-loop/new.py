from colours import is_dark


def test_dark_colours():
    """Black, navy, maroon and indigo are dark."""
    for colour in ("#000000", "#000080", "#800000", "#4b0082"):
        assert is_dark(colour) is True, colour


def test_white_is_not_dark():
    """White is light."""
    assert is_dark("#ffffff") is False
