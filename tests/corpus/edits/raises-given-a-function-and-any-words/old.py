import unittest

from lengths import parse


class ParseTest(unittest.TestCase):
    def test_unit_is_needed(self):
        self.assertRaisesRegex(ValueError, "unknown unit: 'zz'", parse, "12zz")
