import unittest

from dice import Dice


class DiceTest(unittest.TestCase):
    def test_sides(self):
        """A die has six sides unless said otherwise."""
        self.assertTrue(Dice().sides == 6)
        self.assertTrue("six" in Dice().name)
        self.assertFalse(Dice(8).sides == 6)
