import sqlite3

import pytest

from bookmarks import Bookmarks


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bookmarks.db"


def test_add_and_find(path):
    """What was added is found by a word of its title."""
    marks = Bookmarks(path)
    marks.add("https://example.org", "An example")
    assert marks.find("example") == [("https://example.org", "An example")]
    marks.close()


def test_schema(path):
    """The table is called bookmark."""
    Bookmarks(path).close()
    with sqlite3.connect(path) as connection:
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    assert names == [("bookmark",)]
