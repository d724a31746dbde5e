from library import search


def test_search():
    """Titles that have the word come by year."""
    found = search("sea")
    assert len(found) == 2
    assert found[0]["title"] == "The Sea Wolf"
    assert "Old Man" in found[1]["title"]
