import unittest

from dice import Dice


class DiceTest(unittest.TestCase):
    def test_sides(self):
        """A die has six sides unless said otherwise."""
        self.assertEqual(Dice().sides, 6)
        self.assertIn("six", Dice().name)
        self.assertNotEqual(Dice(8).sides, 6)
