import sqlite3
import subprocess


def test_import_of_members(tmp_path):
    """Members are imported into the table."""
    subprocess.run(["club", "import", "members.csv", "--db", str(tmp_path / "club.db")], check=True)
    rows = sqlite3.connect(tmp_path / "club.db").execute("select name from member").fetchall()
    assert rows == [("ada",), ("bob",)]
