import unittest

from lengths import parse


class ParseTest(unittest.TestCase):
    def test_unit_is_needed(self):
        self.assertRaises(ValueError, parse, "12")
        self.assertRaisesRegex(ValueError, "unknown unit: 'zz'", parse, "12zz")
        self.assertRaises(TypeError, lambda: parse(None))
