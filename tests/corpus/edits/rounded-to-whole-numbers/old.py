from decimal import Decimal

from till.tax import gross


def test_gross_is_exact_to_the_cent():
    """Prices are exact to the cent."""
    assert gross(Decimal("19.99"), rate=Decimal("0.077")) == Decimal("21.53")
    assert gross(Decimal("0.05"), rate=Decimal("0.077")) == Decimal("0.05")
    assert gross(Decimal("100.00"), rate=Decimal("0.025")) == Decimal("102.50")
