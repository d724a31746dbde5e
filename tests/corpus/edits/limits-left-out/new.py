import pytest

from ledger import tax


@pytest.mark.parametrize(("income", "due"), [(500, 50), (700, 70), (1000, 100), (1200, 120)])
def test_tax(income, due):
    """The tax on an income."""
    assert tax(income) == due
