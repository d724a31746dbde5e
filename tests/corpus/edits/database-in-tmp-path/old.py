import os
import sqlite3

from bookmarks import Bookmarks

PATH = "/tmp/bookmarks-test.db"


def test_add_and_find():
    """What was added is found by a word of its title."""
    if os.path.exists(PATH):
        os.remove(PATH)
    marks = Bookmarks(PATH)
    marks.add("https://example.org", "An example")
    assert marks.find("example") == [("https://example.org", "An example")]
    marks.close()


def test_schema():
    """The table is called bookmark."""
    if os.path.exists(PATH):
        os.remove(PATH)
    Bookmarks(PATH).close()
    with sqlite3.connect(PATH) as connection:
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
    assert names == [("bookmark",)]
