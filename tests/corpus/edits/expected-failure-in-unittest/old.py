import unittest
from decimal import Decimal

from invoice import Invoice, Line


class InvoiceTotalTest(unittest.TestCase):
    def setUp(self):
        self.invoice = Invoice(vat=Decimal("0.19"))
        self.invoice.add(Line("desk", Decimal("100.00")))

    def test_net(self):
        """The net total is the sum of the lines."""
        self.invoice.add(Line("lamp", Decimal("20.00")))
        self.assertEqual(self.invoice.net, Decimal("120.00"))

    def test_gross_is_rounded_half_up(self):
        """The gross total is rounded half up, to cents."""
        self.invoice.add(Line("pin", Decimal("0.50")))
        self.assertEqual(self.invoice.gross, Decimal("119.60"))
