import sqlite3

from shop import fill, sell


def test_sale_is_kept(tmp_path):
    """A sale is a row."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        fill(database)
        sell(database, "ink")
        assert database.execute("select name, cents from sale").fetchall() == [("ink", 450)]
