from shelf import arrange


def test_books_are_arranged():
    """Books are arranged by title, each once."""
    assert arrange(["alga", "fern", "moss"]) == ["alga", "fern", "moss"]
