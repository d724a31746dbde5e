from lint import problems


def test_no_problems():
    """There are no problems in the pages."""
    assert problems("pages") == []
