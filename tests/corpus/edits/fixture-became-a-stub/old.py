import pytest

from addressbook import Book


@pytest.fixture
def book(tmp_path):
    with Book.open(tmp_path / "book.db") as made:
        yield made


def test_what_was_put_is_found(book):
    """A person is found by a part of the name."""
    book.put("Ada Lovelace", "ada@example.org")
    assert book.find("love") == [("Ada Lovelace", "ada@example.org")]


def test_nobody(book):
    """Nobody is found in an empty book."""
    assert book.find("x") == []
