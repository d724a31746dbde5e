import sqlite3

import pytest

from payroll import raise_salaries

STAFF = [("ann", 1000), ("bob", 2000), ("eve", 3000)]


@pytest.fixture
def staff():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table staff (name text, salary integer)")
    connection.executemany("insert into staff values (?, ?)", STAFF)
    yield connection
    connection.close()


def test_raise(staff):
    """Everybody gets ten percent more."""
    raise_salaries(staff, percent=10)
    rows = iter(staff.execute("select name, salary from staff order by name").fetchall())
    print("rows:", list(rows))
    before = dict(STAFF)
    for name, salary in rows:
        assert salary == before[name] * 110 // 100
