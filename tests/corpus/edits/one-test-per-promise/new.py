import sqlite3

import pytest

from tally import Tally


@pytest.fixture
def tally():
    connection = sqlite3.connect(":memory:")
    tally = Tally(connection)
    for drink in ("tea", "tea", "milk"):
        tally.vote(drink)
    yield tally
    connection.close()


def test_counts(tally):
    assert tally.counts() == {"tea": 2, "milk": 1}


def test_winner(tally):
    assert tally.winner() == "tea"


def test_clear(tally):
    tally.clear()
    assert tally.counts() == {}
    with pytest.raises(LookupError, match="no votes"):
        tally.winner()
