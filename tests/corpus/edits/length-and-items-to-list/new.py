from library import search


def test_search():
    """Titles that have the word come by year."""
    assert search("sea") == [
        {"title": "The Sea Wolf", "year": 1904},
        {"title": "The Old Man and the Sea", "year": 1952},
    ]
