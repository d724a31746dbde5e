from colours import is_dark


def test_dark_colours():
    """Black, navy, maroon and indigo are dark."""
    assert is_dark("#000000") is True
    assert is_dark("#000080") is True
    assert is_dark("#800000") is True
    assert is_dark("#4b0082") is True


def test_white_is_not_dark():
    """White is light."""
    assert is_dark("#ffffff") is False
