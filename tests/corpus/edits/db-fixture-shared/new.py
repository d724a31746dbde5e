import sqlite3
from contextlib import closing

import pytest

from bookshelf import by_author, count

ROWS = [("A", "x"), ("B", "y"), ("C", "x")]


@pytest.fixture
def db():
    with closing(sqlite3.connect(":memory:")) as conn:
        conn.execute("CREATE TABLE book (title TEXT, author TEXT)")
        conn.executemany("INSERT INTO book VALUES (?, ?)", ROWS)
        yield conn


def test_by_author(db):
    assert by_author(db, "x") == ["A", "C"]
    assert by_author(db, "z") == []


def test_count(db):
    assert count(db) == 3
