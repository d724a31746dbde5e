import pytest

from ledger.parser import LedgerSyntaxError, parse


def test_unbalanced_transaction():
    with pytest.raises(LedgerSyntaxError, match=r"line 3: unbalanced by 1\.50"):
        parse("2020-01-01 shop\n  cash  -10.00\n  food  11.50\n")
