import sqlite3

from shop import create, sell


def test_sale_is_kept(tmp_path):
    """A sale is a row."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        create(database)
        database.executemany("insert into stock values (?, ?)", [("ink", 450), ("pen", 120)])
        sell(database, "ink")
        assert database.execute("select name, cents from sale").fetchall() == [("ink", 450)]
