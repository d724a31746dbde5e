import unittest

from roman import to_roman


class RomanTest(unittest.TestCase):
    def test_four(self):
        self.assertEqual(to_roman(4), "IV")

    def test_zero_is_refused(self):
        with self.assertRaisesRegex(ValueError, "must be positive"):
            to_roman(0)
