import sqlite3
import subprocess


def test_import_of_a_member(tmp_path):
    """A member is imported into the table."""
    subprocess.run(["club", "import", "one.csv", "--db", str(tmp_path / "club.db")], check=True)
    rows = sqlite3.connect(tmp_path / "club.db").execute("select name from member").fetchall()
    assert rows == [("eve",)]
