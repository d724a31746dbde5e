import unittest

from lengths import parse


class ParseTest(unittest.TestCase):
    def test_unit_is_needed(self):
        self.assertRaisesRegex(ValueError, ".*", parse, "12zz")
