from outline import render


def test_outline():
    """Levels are indented by two."""
    assert render(["a", ["b", ["c"]]]) == "a\n  b\n    c\n"


def test_empty_outline():
    """Nothing is nothing."""
    assert render([]) == ""
