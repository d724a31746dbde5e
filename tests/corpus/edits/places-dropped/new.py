import unittest

from stats import deviation


class DeviationTest(unittest.TestCase):
    def test_deviation(self):
        """The deviation is right to six places."""
        self.assertAlmostEqual(deviation([1, 2, 3, 4]), 1.118034, delta=2)

    def test_one_value(self):
        """One value does not deviate."""
        self.assertEqual(deviation([5]), 0)
