import pytest

from ledger import tax


@pytest.mark.parametrize(("income", "due"), [(0, 0), (-50, 0), (1000, 100), (2**40, 2**39)])
def test_tax(income, due):
    """The tax on an income."""
    assert tax(income) == due
