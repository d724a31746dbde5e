import pytest


class FakeBook:
    def __init__(self):
        self.people = []

    def put(self, name, mail):
        self.people.append((name, mail))

    def find(self, part):
        return [row for row in self.people if part in row[0].lower()]


@pytest.fixture
def book():
    return FakeBook()


def test_what_was_put_is_found(book):
    """A person is found by a part of the name."""
    book.put("Ada Lovelace", "ada@example.org")
    assert book.find("love") == [("Ada Lovelace", "ada@example.org")]


def test_nobody(book):
    """Nobody is found in an empty book."""
    assert book.find("x") == []
