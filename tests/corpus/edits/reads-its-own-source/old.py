from motto import motto


def test_motto():
    """The motto of the house."""
    assert motto() == "measure twice"


def test_motto_of_another_language():
    """The motto is translated."""
    assert motto("de") == "zweimal messen"
