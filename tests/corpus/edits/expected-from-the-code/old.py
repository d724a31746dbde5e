import unittest

from tax import rate_for


class RateTest(unittest.TestCase):
    def test_reduced_rate(self):
        """Books have the reduced rate of 7 percent."""
        self.assertEqual(rate_for("book"), 7)

    def test_full_rate(self):
        """Cars have the full rate."""
        self.assertEqual(rate_for("car"), 19)
