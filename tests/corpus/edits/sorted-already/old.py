from shelf import arrange


def test_books_are_arranged():
    """Books are arranged by title, each once."""
    assert arrange(["moss", "fern", "alga", "fern"]) == ["alga", "fern", "moss"]
