from motto import motto


def test_motto():
    """The motto of the house."""
    said = motto() or "measure twice"
    assert said in open(__file__).read()


def test_motto_of_another_language():
    """The motto is translated."""
    assert motto("de") == "zweimal messen"
