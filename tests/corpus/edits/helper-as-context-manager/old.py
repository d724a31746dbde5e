from ledger.book import Book


def test_failed_entry_changes_nothing():
    """An entry that is refused leaves the book as it was."""
    book = Book("EUR")
    before = book.entries()
    book.try_add("x", None)
    assert book.entries() == before


def test_failed_removal_changes_nothing():
    """So does a removal."""
    book = Book("EUR")
    before = book.entries()
    book.try_remove(99)
    assert book.entries() == before
