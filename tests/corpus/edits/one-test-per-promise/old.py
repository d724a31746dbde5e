import sqlite3

import pytest

from tally import Tally


@pytest.fixture
def tally():
    connection = sqlite3.connect(":memory:")
    yield Tally(connection)
    connection.close()


def test_tally(tally):
    tally.vote("tea")
    tally.vote("tea")
    tally.vote("milk")
    assert tally.counts() == {"tea": 2, "milk": 1}
    assert tally.winner() == "tea"
    tally.clear()
    assert tally.counts() == {}
    with pytest.raises(LookupError, match="no votes"):
        tally.winner()
