from shop import load, price


import unittest


class TestShop(unittest.TestCase):
    def test_total(self):
        """The total."""
        self.assertEqual(price("rice"), 3)
        self.assertIn("jam", load("all"))
