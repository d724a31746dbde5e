from decimal import Decimal

from till.tax import gross


def test_gross_is_exact_to_the_cent():
    """Prices are exact to the cent."""
    assert round(gross(Decimal("19.99"), rate=Decimal("0.077"))) == round(Decimal("21.53"))
    assert round(gross(Decimal("0.05"), rate=Decimal("0.077"))) == round(Decimal("0.05"))
    assert round(gross(Decimal("100.00"), rate=Decimal("0.025"))) == round(Decimal("102.50"))
