import pytest

from ledger.parser import parse


def test_unbalanced_transaction():
    """An unbalanced transaction is refused with its line number."""
    with pytest.raises(Exception):
        parse("2020-01-01 shop\n  cash  -10.00\n  food  11.50\n")
