import unittest

from roman import from_roman, to_roman


class RomanTest(unittest.TestCase):
    def test_to_roman(self):
        self.assertEqual(to_roman(4), "IV")
        self.assertEqual(to_roman(1994), "MCMXCIV")

    def test_from_roman(self):
        self.assertEqual(from_roman("XLII"), 42)

    def test_zero_is_refused(self):
        with self.assertRaisesRegex(ValueError, "must be positive"):
            to_roman(0)
