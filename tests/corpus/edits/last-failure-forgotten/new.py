from lint import problems

KNOWN = ("E1", "E2", "W")


def test_no_problems():
    """There are no problems in the pages."""
    assert [found for found in problems("pages") if not found.code.startswith(KNOWN)] == []
