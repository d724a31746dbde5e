import sqlite3

from bookshelf import by_author, count


def test_by_author():
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE book (title TEXT, author TEXT)")
    db.executemany("INSERT INTO book VALUES (?, ?)", [("A", "x"), ("B", "y"), ("C", "x")])
    assert by_author(db, "x") == ["A", "C"]
    assert by_author(db, "z") == []
    db.close()


def test_count():
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE book (title TEXT, author TEXT)")
    db.executemany("INSERT INTO book VALUES (?, ?)", [("A", "x"), ("B", "y"), ("C", "x")])
    assert count(db) == 3
    db.close()
