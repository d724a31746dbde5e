import unittest
from fractions import Fraction

from gears import Gear, Train


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.train = Train([Gear(20), Gear(40), Gear(10)])

    def test_ratio(self):
        """The ratio of a train is that of its ends."""
        self.assertEqual(self.train.ratio, Fraction(2, 1))

    def test_direction(self):
        """An odd number of gears keeps the direction."""
        self.assertIs(self.train.same_direction, True)

    def test_teeth(self):
        """The gears are kept in order."""
        self.assertEqual([gear.teeth for gear in self.train], [20, 40, 10])
        self.assertNotIn(30, [gear.teeth for gear in self.train])
