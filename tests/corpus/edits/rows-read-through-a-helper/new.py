import contextlib
import sqlite3
import subprocess


def rows_of(path, query):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_imported_members(tmp_path):
    """Members are imported into the table."""
    db = tmp_path / "club.db"
    subprocess.run(["club", "import", "members.csv", "--db", str(db)], check=True)
    assert rows_of(db, "select name from member order by name") == [("ada",), ("bob",)]
