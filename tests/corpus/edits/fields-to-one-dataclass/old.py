from library import Book, lookup


def test_lookup():
    """A book is found by its number."""
    book = lookup("978-3")
    assert book.title == "Dune"
    assert book.author == "Herbert"
    assert book.pages == 412
