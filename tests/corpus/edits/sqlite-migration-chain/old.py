import sqlite3

import pytest

from notesdb.migrate import LATEST, migrate
from notesdb.testing import build_at_version


@pytest.mark.parametrize("start", [1, 2, 3, 4, 5])
def test_migrates_to_latest_without_losing_notes(tmp_path, start):
    path = tmp_path / "notes.db"
    build_at_version(path, start, notes=["one", "two"])
    migrate(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (LATEST,)
        assert db.execute("SELECT body FROM note ORDER BY id").fetchall() == [("one",), ("two",)]
