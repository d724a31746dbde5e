from decimal import Decimal

import pytest

from invoice import total


@pytest.mark.parametrize(
    "lines, vat, expected",
    [
        ([Decimal("9.99")] * 3, Decimal("0.20"), Decimal("35.96")),
        ([Decimal("0.05")], Decimal("0.10"), Decimal("0.06")),
        ([Decimal("1000.00")], Decimal("0.175"), Decimal("1175.00")),
    ],
)
def test_total_rounds_half_up_to_cents(lines, vat, expected):
    assert total(lines, vat) == expected
