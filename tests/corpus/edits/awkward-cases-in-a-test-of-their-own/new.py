import pytest

from ledger import parse


@pytest.mark.parametrize(("text", "cents"), [("1.50", 150), ("2", 200)])
def test_parse(text, cents):
    """Amounts are read."""
    assert parse(text) == cents


@pytest.mark.parametrize(("text", "cents"), [("", 0), ("-3", -300), ("  4 ", 400)])
def test_parse_awkward(text, cents):
    """Amounts are read, in whichever way they are written."""
    assert parse(text) == cents
