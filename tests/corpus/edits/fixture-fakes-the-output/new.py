import pytest


@pytest.fixture
def listing():
    return "1 milk\n2 eggs\n"


def test_numbers(listing):
    """Entries are numbered from 1."""
    assert listing.splitlines() == ["1 milk", "2 eggs"]


def test_ends_with_a_newline(listing):
    """The last line is a whole line."""
    assert listing.endswith("eggs\n")
