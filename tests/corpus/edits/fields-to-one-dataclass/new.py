from library import Book, lookup


def test_lookup():
    """A book is found by its number."""
    assert lookup("978-3") == Book(title="Dune", author="Herbert", pages=412)
