import unittest

from barn import Barn


class BarnTest(unittest.TestCase):
    def setUp(self):
        self.barn = Barn()
        self.addCleanup(self.barn.close)

    def test_cow(self):
        self.barn.take("cow")
        self.assertEqual(self.barn.count(), 1)
        self.assertIn("cow", self.barn.names())
