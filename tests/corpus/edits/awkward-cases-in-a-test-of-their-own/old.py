import pytest

from ledger import parse


@pytest.mark.parametrize(("text", "cents"), [("1.50", 150), ("2", 200), ("", 0), ("-3", -300), ("  4 ", 400)])
def test_parse(text, cents):
    """Amounts are read."""
    assert parse(text) == cents
