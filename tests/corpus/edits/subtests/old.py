import unittest

from plural import plural


class PluralTest(unittest.TestCase):
    def test_plural(self):
        """Regular, -y and irregular words."""
        self.assertEqual(plural("cat"), "cats")
        self.assertEqual(plural("fly"), "flies")
        self.assertEqual(plural("mouse"), "mice")
