import unittest

from tax import rate_for


class RateTest(unittest.TestCase):
    def test_reduced_rate(self):
        """Books have the reduced rate of 7 percent."""
        reduced = rate_for("book")
        self.assertEqual(rate_for("book"), reduced)

    def test_full_rate(self):
        """Cars have the full rate."""
        self.assertEqual(rate_for("car"), 19)
