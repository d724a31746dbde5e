from contextlib import contextmanager

from ledger.book import Book


@contextmanager
def unchanged(book):
    before = book.entries()
    yield
    assert book.entries() == before


def test_failed_entry_changes_nothing():
    """An entry that is refused leaves the book as it was."""
    book = Book("EUR")
    with unchanged(book):
        book.try_add("x", None)


def test_failed_removal_changes_nothing():
    """So does a removal."""
    book = Book("EUR")
    with unchanged(book):
        book.try_remove(99)
